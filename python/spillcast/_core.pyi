"""The Rust core: captures, probes and emulated storage."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

__all__ = [
    "Batches",
    "CacheCurve",
    "CacheRequests",
    "CpuWatch",
    "Emulation",
    "Grid",
    "Memory",
    "ParquetReader",
    "ParquetWriter",
    "PartialFolder",
    "PeakMemory",
    "Probe",
    "Recorder",
    "RecordingWriter",
    "Scan",
    "Seconds",
    "SparkApplication",
    "SparkWork",
    "Stream",
    "Table",
    "Target",
    "TraceReader",
    "Waits",
    "ZstdReader",
    "__version__",
    "age_s",
    "burst_moments",
    "capture_cost",
    "capture_cost_child",
    "chases",
    "check_attaches",
    "check_free",
    "check_output",
    "covered_ns",
    "describe_machine",
    "group_folders",
    "inputs_of",
    "is_partial",
    "memory_groups",
    "mounted",
    "partial_folders",
    "replay_plan",
    "scratch_prefix",
    "simulate",
    "size_class_bytes",
    "source_refusal",
    "spread",
    "status_bytes",
    "temp_name_of",
    "temp_of",
    "try_source",
    "unused_name",
    "work",
]

__version__: str

def chases() -> list[tuple[int, int, bool, str, int, int]]:
    """Reads of memory in no order, warm and after waits: bytes of memory, reads, whether each
    depends on the one before, ``not``, ``spinning`` or ``sleeping``, for how long, and the median
    CPU time of the reads; times in ns. Takes some two seconds."""

def burst_moments(
    rows: Any, whole_s: float, stretches: int, sizes: float
) -> tuple[list[float], list[float]]:
    """Of bursts, sums of squares of their weights, and of products of weight and CPU time.

    By stretch of a run of ``whole_s``, about the means of what is alike there: of the same op,
    next_op (int8) and session, with bytes (int64) within one part in ``sizes`` of a power of two.
    weight, cpu_s and end_s are float64. ValueError for columns of another kind.
    """

def capture_cost(
    name: str,
    calls: Sequence[str] | None,
    program: Sequence[str],
    bare: Sequence[str],
    observed: Sequence[str],
) -> dict[str, Any]:
    """What an observed thread loses by a call and by a context switch, s: ``call_s``, its quartiles
    ``call_low_s`` and ``call_high_s``, and ``switch_s`` with its own, each None where the source
    does nothing at a switch. Takes some 0.2 s.

    ``program`` calls ``capture_cost_child`` with the two arguments that are added to it; the
    environments hold NAME=value, ``observed`` that of a process which the source is to observe.
    OSError says why it cannot be measured, ValueError which name is none.
    """

def capture_cost_child(memory: str, seat: int) -> None:
    """Serve a measurement of ``capture_cost`` until it ends; both arguments are what it added.
    OSError where it has ended."""

def covered_ns(rows: Any, wide_ns: float, count: int) -> list[float]:
    """By stretch, ns that at least one interval from begin_ns to end_ns (int64) covers.

    There are ``count`` stretches of ``wide_ns`` from 0 on.
    ValueError for columns of another kind.
    """

def spread(rows: Any, wide_ns: float, count: int) -> list[float]:
    """Sums by stretch of values (float64), each spread evenly from begin_ns to end_ns (int64).

    What lies before the stretches counts in the first, what lies after them in the last. ValueError
    for columns of another kind.
    """

def simulate(
    rows: Any,
    cores: int,
    behaviour: Any = None,
    memory: tuple[float, float] = ...,
    page_cache: tuple[int, int] | None = None,
    quota: tuple[int, int] | None = None,
) -> tuple[dict[str, Any], Table]:
    """How long threads take that share ``cores``; ``rows`` are those of a ThreadTrace.

    Temp operations go to the storage ``behaviour``, if there is one, else they take their waits;
    what is answered within ``memory``, ns and ns a byte, keeps its core. ``page_cache`` is how many
    bytes one before the storage may hold, and how many of them may be dirty; it is asked what it
    lacks of reads whose missing_bytes is not given. ``quota`` is the CPU
    time, ns, that the threads may have of each period, and the length of one. elapsed_ns; temp_ns,
    the sum of the temp waits; temp_busy_ns, in which at least one was under way; forced, waits that
    nothing would have ended; limited_ns, what operations waited for each limit, and served_ns,
    their own cost there; queued_ns, what they waited for a server; latency_ns; throttled_ns, in
    which threads waited for the next period. And, by row, the columns io_ns, what it took, and
    storage_ns, of that the storage's part. ValueError for columns of another kind.
    """

def work(
    waits: Any,
    slices_ns: Sequence[tuple[int, int]],
    elapsed_s: float,
    memory: tuple[float, float],
) -> dict[str, Any]:
    """What threads did, by ``waits`` in the order of their start: the values of a Work.

    ``slices_ns`` are begin and end of the stretches whose waits were kept; none where all were.
    ``memory`` is what memory takes at most: s, and bytes per second. ValueError for columns of
    another kind.
    """

def replay_plan(
    waits: Any, slices_ns: Sequence[tuple[int, int]], *, moves_only: bool = False
) -> tuple[Table, bool]:
    """The temp I/O of waits as a plan of Probe, and whether threads wait in it for each other.

    With ``moves_only`` a step reads or writes, after the pause since its thread's last. ValueError
    for columns of another kind.
    """

def mounted(path: str) -> tuple[str, str, bool | None, Path, str, str | None] | None:
    """Device, type, whether it lies behind a network, point and options of what is mounted where a
    path lies, and the name of the block device with the model of its disk.

    As the kernel lists it, without asking the file system: the path, which is absolute, may be
    gone. None for a network of which nothing is known, and where nothing is listed.
    """

def describe_machine() -> str:
    """``machine`` of meta.json for this machine, without its caches."""

def check_attaches(capture: str, label: str, hint: str) -> None:
    """InputError where ``capture`` cannot observe ``label``, which is already running."""

def check_free(path: Any) -> None:
    """InputError where another recorder writes what is to be called ``path``."""

def check_output(path: Any, *, force: bool = False) -> None:
    """InputError unless a recording can be written at ``path``; one that is there is replaced only
    with ``force``."""

def is_partial(name: str) -> bool:
    """Whether a folder of that name is one in which a recording is being written, or was."""

def partial_folders(path: Any) -> list[Path]:
    """The folders in which something called ``path`` is being written, or was."""

def unused_name(path: Any) -> Path:
    """The path, or with -2, -3 and so on after its stem the first that is free."""

def try_source(name: str, calls: Sequence[str] | None = None) -> None:
    """Make a source ready for its calls (None: all) and let go of it. OSError says why it does not
    work."""

def source_refusal(name: str, number: int) -> tuple[str, str | None]:
    """What an error number of a source means: the message and the remedy."""

def group_folders(controller: str) -> list[Path]:
    """The folders of the control groups that control this process, innermost first."""

def memory_groups(pid: int = ..., cgroups: Path = ...) -> list[tuple[int, int]]:
    """Of each memory group of a process (this one) with a limit, innermost first: the limit, and
    what it holds that the kernel cannot drop."""

def status_bytes(path: str, name: str) -> int | None:
    """A size that a file of /proc gives in kB; None where there is no such line."""

def age_s(pid: int, called: str = "") -> float | None:
    """How long ago a process was started whose name holds ``called``; None where there is none."""

def inputs_of(read_bytes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Of other files than temp files, by name what was read of each: the largest that are there
    now, with their sizes."""

def temp_of(before: Mapping[str, int], folders: Sequence[str]) -> list[tuple[str, int]]:
    """Of files that were there before, those in folders of temp files, the largest first."""

def scratch_prefix() -> str:
    """How the names of files begin that a probe of this process makes, and no others."""

def temp_name_of(path: str) -> tuple[str, str] | None:
    """The engine that names its temp files like this path, and what such a file contains."""

def size_class_bytes(bytes: int) -> int:
    """The size class that an operation of so many bytes falls into, in bytes."""

@final
class Table:
    """Columns of rows; any Arrow reader takes it."""

    @staticmethod
    def of(columns: Sequence[tuple[str, bool, Any]], rows: int) -> Table:
        """A table of columns as ``column`` has them, each with its name and whether it may be null.

        Memory is any contiguous buffer of bytes. Lists have the type ``list``.
        """
    @staticmethod
    def taken(rows: Any) -> list[Table]:
        """What an object with ``__arrow_c_array__`` or ``__arrow_c_stream__`` holds, by batch."""
    def fields(self) -> list[tuple[str, str, bool]]:
        """Name and type of each column, and whether it may be null."""
    def column(self, name: str) -> tuple[str, Memory, Memory | None, Any]:
        """Type, values, by row whether there is one, and names of text or the items of lists.

        KeyError where there is none, TypeError for a type that numpy does not have.
        """
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __len__(self) -> int: ...
    def names(self) -> list[str]:
        """Names of the columns."""

@final
class Memory:
    """Memory of a column, read by the buffer protocol."""

@final
class ParquetReader:
    """A Parquet file: its columns and row groups, then its rows."""

    def __new__(cls, path: str | Path) -> ParquetReader:
        """OSError where it cannot be opened, ValueError where it is damaged."""
    def fields(self) -> list[tuple[str, str, bool]]:
        """Name and type of each column, and whether it may be null."""
    def row_groups(self) -> list[tuple[int, int]]:
        """Bytes without compression and rows of each row group."""
    def key_values(self) -> list[tuple[str, str]]:
        """Pairs that its writer has added."""
    def batches(
        self,
        columns: Sequence[int],
        rows: int,
        rules: Sequence[tuple[str, bool, int, int]] = ...,
    ) -> Batches:
        """The rows of the columns at these positions, ``rows`` at a time.

        ``rules`` are of columns: name, whether one may be null, the least and greatest of its
        numbers. ValueError where rows break one.
        """

@final
class Batches:
    """The rows of a Parquet file. ValueError where they are damaged."""

    def fields(self) -> list[tuple[str, str, bool]]:
        """Name and type of each column, and whether it may be null."""
    def __iter__(self) -> Batches: ...
    def __next__(self) -> Table: ...

@final
class ParquetWriter:
    """Writes record batches of the same columns to a Parquet file, compressed by zstd."""

    def __new__(
        cls,
        path: str | Path,
        like: Any,
        group_rows: int | None = None,
        key_values: Sequence[tuple[str, str]] | None = None,
    ) -> ParquetWriter:
        """The columns are those of ``like``; ``key_values`` stand beside them.

        OSError where the file cannot be made.
        """
    def write(self, rows: Any) -> None:
        """Write rows. OSError where that fails."""
    def close(self) -> None:
        """Write the end; only then is it readable."""

@final
class ZstdReader:
    """The content of a file that zstd has compressed."""

    def __new__(cls, path: str | Path) -> ZstdReader:
        """OSError where it cannot be opened."""
    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end. OSError where it is damaged from there on."""

@final
class Stream:
    """Tables of the same columns as a stream that is read once: ``next`` gives them, then None."""

    def __new__(cls, like: Table, next: Any) -> Stream: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class CacheCurve:
    """Miss ratios of LRU caches of every size."""

    @property
    def references(self) -> int:
        """Requests that the ratios are of."""
    @property
    def lines(self) -> float:
        """Distinct lines; an estimate where they are sampled."""
    @property
    def error_max(self) -> float:
        """What the ratios are off by in the mean of all sizes, at most: in 19 of 20 traces where
        lines are sampled, always where distances are rounded; 0 where the curve is exact."""
    @property
    def lines_min(self) -> float:
        """The smallest size that the curve tells from others, in lines."""
    def miss_ratios(self, lines: Sequence[float]) -> list[float]:
        """Share of the requests that miss, by lines of the cache."""

@final
class CacheRequests:
    """Requests for cache lines; work on them is done by one thread and ended by another."""

    @staticmethod
    def oracle_general(path: Any) -> CacheRequests:
        """A file of libCacheSim's format; each id is a line. It is read each time."""
    @staticmethod
    def rows(rows: Any, line_bytes: int) -> CacheRequests:
        """Reads and writes of ranges of files, cut into lines.

        Columns, all int64 without nulls: time_s, file, offset, bytes, object, query, class (as in
        ``classes``), ends_query (0 or 1). ValueError where they do not fit.
        """
    @staticmethod
    def classes() -> list[str]:
        """The names of the classes, in their order."""
    @staticmethod
    def policies() -> list[str]:
        """The names of the policies."""
    def simulate(
        self,
        policy: str,
        lines: int,
        *,
        kept: Sequence[int] = ...,
        temp_share: float = 1.0,
        unread_s: int = 86400,
        temp_writes: bool = False,
        runs: int = 1,
        alone: bool = False,
    ) -> dict[str, Any]:
        """What a cache of so many lines serves: accounts of each run, lines cached at the end."""
    def curve(
        self,
        *,
        rate: float = 1.0,
        error: float = 0.0,
        temp_writes: bool = False,
        runs: int = 1,
    ) -> CacheCurve:
        """Stack distances in the last of some runs, of a share of the lines, of all with 1; or
        rounded, so that the ratios are off by at most ``error`` in the mean of all sizes."""
    def requests(self) -> int:
        """Requests gone through so far, by whatever was asked."""
    def cancel(self) -> None:
        """End the work that another thread does."""

@final
class Scan:
    """One pass over the waits of a recording: their sums, and those that begin within slices."""

    def __new__(
        cls,
        slices_ns: Sequence[tuple[int, int, int]] = ...,
        page_cache: tuple[float, int, tuple[float, float]] | None = None,
    ) -> Scan:
        """Each slice has a begin and an end, ns, and the number of its part of a sample; no two
        overlap. With ``page_cache`` it is found out which reads of temp files a page cache
        answered: a share of the regions of files, the number of parts, and what memory takes, ns
        and ns a byte.
        """
    def push(self, waits: Any) -> None:
        """Takes the next waits. ValueError for other columns."""
    def sums(self) -> tuple[int, int, int, int]:
        """Rows, bytes, ns, and the end of the last one, ns."""
    def held_bytes(self) -> tuple[int, int]:
        """The most that the temp files held together, as if none was removed, as far as offsets are
        known; and the number of operations whose offset is not.
        """
    def rows(self, room_bytes: int) -> tuple[Waits, Table | None]:
        """The rows of the slices; and, where a page cache was asked, the bytes that it lacked with
        so much room: null for what is no read of a temp file. It ends with that.
        """

@final
class Waits:
    """Raw waits of a capture; any Arrow reader takes them."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    def __len__(self) -> int: ...
    def decided(self) -> dict[str, bool]:
        """Whether files are temp, of which that was decided after rows of them were handed out."""

@final
class Seconds:
    """Per-second rows of a capture; any Arrow reader takes them."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    def __len__(self) -> int: ...

@final
class Target:
    """A command that does nothing until it is released, or a process that is already running."""

    @staticmethod
    def command(arguments: Sequence[str], environment: Sequence[str]) -> Target:
        """A command; ``environment`` holds NAME=value. InputError says why it cannot be started."""
    @staticmethod
    def process(pid: int) -> Target:
        """A running process. InputError if there is none."""
    @property
    def pid(self) -> int:
        """Its process id."""
    @property
    def is_command(self) -> bool:
        """Whether it is a command that this process started."""
    @property
    def exit_status(self) -> int | None:
        """Of a command that has ended its status, negative for a signal."""
    def release(self) -> None:
        """Let the command run. InputError says why it could not be started."""
    def send_signal(self, number: int) -> None:
        """Send a signal; do nothing if the process has ended."""
    def abandon(self) -> None:
        """End a held command before it has done anything."""
    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""

@final
class Recorder:
    """One recording under way: ``prepare``, ``observe``, ``tick`` until done, ``account``,
    ``publish``."""

    def __new__(cls, output: Any, options: Any) -> Recorder:
        """Without an ``output`` nothing is written; ``options`` are a RecordOptions. InputError
        where a directory cannot be used."""
    def prepare(
        self,
        pid: int | None,
        label: str | None,
        calls: Sequence[str] | None,
        preload: str | None,
    ) -> dict[str, str]:
        """Choose the capture source; the variables that a command needs in its environment.

        ``pid`` is a process that is already running, which ``label`` names in errors. ``calls`` are
        the system calls to observe (None: all); ``preload`` is the value of LD_PRELOAD. InputError
        says why no source works.
        """
    def observe(
        self,
        pid: int,
        temp_dirs: Sequence[Path],
        *,
        only_calls: bool,
        many_processes: bool,
        was_running: bool,
    ) -> dict[str, str] | None:
        """Observe a process and all that it starts. Variables if the command has to be started
        again with them. InputError says what is refused."""
    def observe_nothing(self, pid: int, because: str) -> None:
        """Begin without a capture, for the given reason."""
    def know_before(self) -> None:
        """Keep what the process, which is already running, had done until now."""
    @property
    def method(self) -> str:
        """The name of the capture source; none without a capture."""
    @property
    def notice(self) -> str | None:
        """Which source observes, and why no better one; None if it was asked for by name."""
    @property
    def origin_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording."""
    @property
    def folder(self) -> Path | None:
        """The folder in which it is written; None without one."""
    def attach(self, pid: int) -> None:
        """Observe one more running process; once is enough. OSError says why not."""
    def attach_children(self, parent: int, title: str) -> None:
        """Observe children that ``parent`` starts and whose command line holds ``title``."""
    def joined(self) -> list[tuple[int, int | None, int, tuple[int, int, int] | None, int]]:
        """Processes attached meanwhile: pid, start_ns, attached_ns, reads, writes, bytes before.

        The last is the number of temp files that it had open then.
        """
    def status(self) -> dict[str, Any]:
        """Counts and costs so far."""
    def tick(self, ended: bool) -> tuple[bool, Waits, Seconds]:
        """Write what came in: whether the recording is over, because its target ``ended`` or by its
        limit, and the rows."""
    def collect(self) -> tuple[Waits, Seconds]:
        """Write the rows since the last call, and return them: waits, seconds."""
    def end_capture(self, *, over: bool = False) -> None:
        """End the capture; its rows are still to be collected. ``over``: so is the run."""
    def discard(self) -> None:
        """End the capture and remove everything that was written."""
    def check_connected(self) -> None:
        """InputError if the source saw nothing of the run at all."""
    def elapsed_s(self, ended: bool) -> float:
        """Seconds from the beginning to now, or to the last ``tick`` of a target that has
        ``ended``."""
    def measure_caches(self) -> None:
        """Measure the machine's caches once, which takes 0.5 s."""
    def account(
        self,
        elapsed_s: float,
        started_ns: int | None,
        cost: Any,
        command: Sequence[str] | None,
        exit_status: int | None,
    ) -> str:
        """meta.json as far as it is known by now, of a run of ``elapsed_s`` that began at
        ``started_ns``."""
    def add_document(self, name: str, document: str) -> None:
        """Write a JSON document beside the rows; do nothing without an output."""
    def finish_rows(self, zero_ns: int) -> None:
        """Write the Parquet files; times count from ``zero_ns`` after the recording's start."""
    def publish(self, meta: str, because: str | None = None) -> tuple[Path, str, dict[str, Any]]:
        """Write meta.json and give the recording its name: the path, meta.json, and sums of the
        rows: written_bytes, to temp files and to others; other_files by name, each as the FileSums
        of recording/sums.py. ``because`` says what else could not be kept."""

@final
class RecordingWriter:
    """Writes the waits and seconds of one recording, and its folder.

    Raw waits go to parts of equal time. Whenever too many rows or parts are held, every second
    part is dropped and from then on only every second one is kept: what remains is spread evenly
    over the run, however long it gets. The same is done where the disk is full. The per-second
    rows are never thinned.
    """

    def __new__(
        cls,
        path: Any,
        slices: int | None = None,
        *,
        share: bool = False,
        force: bool = False,
        rows_max: int = ...,
        parts_max: int = ...,
    ) -> RecordingWriter:
        """``slices`` are the parts of which single waits are kept, the others the most that are
        kept without. InputError where no recording can be written at ``path``."""
    @property
    def folder(self) -> Path:
        """The folder in which it is written."""
    def add_waits(self, waits: Any) -> None:
        """Take raw waits: of a capture, or columns of any other origin. ValueError for others."""
    def add_seconds(self, seconds: Any) -> None:
        """Take per-second rows: of a capture, or columns of any other origin."""
    def add_document(self, name: str, document: str) -> None:
        """Write a JSON document beside the rows."""
    def finish_rows(self, zero_ns: int) -> None:
        """Write the Parquet files; times count from ``zero_ns`` after the recording's start."""
    def publish(self, meta: str, because: str | None = None) -> tuple[Path, str, dict[str, Any]]:
        """As of ``Recorder``."""
    def discard(self) -> None:
        """Remove everything that was written."""

@final
class PartialFolder:
    """A new private folder for what will be called ``path``, removed with this object or its
    process."""

    def __new__(cls, path: Any) -> PartialFolder:
        """InputError where another recorder writes something of that name now."""
    @property
    def path(self) -> Path:
        """Where it is."""
    def close(self) -> None:
        """Remove it, unless it has another name by now."""

@final
class CpuWatch:
    """The CPU limits of a process while it runs, looked at now and then.

    A process may be moved to another group, or bound to CPUs, after it was started.
    """

    def __new__(cls, pid: int, cgroups: Path = ...) -> CpuWatch: ...
    def look(self) -> None:
        """Read what limits it now; what was seen last stays where it has ended."""
    @property
    def limits(self) -> tuple[int | None, float | None, float | None, float | None, int | None]:
        """CPUs that it may run on, quota (CPUs) and its period (s), time (s) and periods throttled
        since the first look; None for no quota."""

@final
class PeakMemory:
    """The most memory that a process and those it started held resident, looked at now and then."""

    def __new__(cls, pid: int) -> PeakMemory: ...
    def add(self, *pids: int) -> None:
        """Look at more processes from now on, each once."""
    def look(self) -> None:
        """Read the kernel's own high-water mark of each process that is still there, where due."""
    @property
    def peak_bytes(self) -> int | None:
        """Sum of the peaks, which is an upper bound; None where nothing could be read."""
    @property
    def group_held_bytes(self) -> int | None:
        """The most that its tightest memory cgroup held besides files; None where there is none."""

@final
class Emulation:
    """A directory mounted at a pace."""

    def __new__(
        cls,
        backing: Any,
        mountpoint: Any,
        behaviour: Any,
        *,
        page_cache: bool = False,
    ) -> Emulation:
        """Show ``backing`` at ``mountpoint``; it behaves like a storage.behaviour.Behaviour.

        ValueError where one of the directories cannot be used, OSError says what else is missing.
        """
    def floor(self) -> list[tuple[str, int, int]]:
        """What the mount itself adds: op, size in bytes, ns."""
    def stats(self) -> list[dict[str, Any]]:
        """What was done so far, reads then writes."""
    def is_mounted(self) -> bool:
        """Whether it is still there: anyone who may can unmount it."""
    def unmount(self) -> None:
        """Unmount; files that are open there keep working until they are closed."""

@final
class Grid:
    """A grid of op, size, depth, pattern and access, measured on a directory."""

    def __new__(
        cls,
        dir: Any,
        *,
        budget_s: float,
        budget_bytes: int | None = None,
        psync: bool = False,
    ) -> Grid: ...
    def run(self) -> str:
        """Measure; returns what ``Probe.run`` does."""
    def progress(self) -> tuple[int, int, int]:
        """Milliseconds passed, milliseconds in all, bytes so far."""
    def cancel(self) -> None:
        """End a run in another thread."""

@final
class Probe:
    """A replay of recorded temp I/O on a directory."""

    def __new__(
        cls,
        plan: Any,
        dir: Any,
        *,
        budget_s: float,
        budget_bytes: int | None = None,
        direct: bool = False,
    ) -> Probe: ...
    @property
    def working_set_bytes(self) -> int:
        """Distinct bytes that the whole plan touches."""
    @property
    def byte_share(self) -> float:
        """Share of the working set that the byte budget has room for."""
    @property
    def memory_bytes(self) -> int:
        """Memory that a run takes for itself."""
    def page_cache_bound(self, engine_bytes: int | None) -> int | None:
        """The page cache (bytes) that a run must be held to, given the engine's; None if to none.

        Held to it is what would have less in the engine's place, unless twice the working set
        fits. A share of the working set gets that share of the cache, for it then fits as well or
        as badly."""
    def run(self) -> str:
        """Replay; returns ``groups``, ``changes`` and ``facts`` of storage.json as JSON."""
    def progress(self) -> tuple[int, int, int]:
        """Steps done (or skipped), steps in all, bytes so far."""
    def cancel(self) -> None:
        """End a replay that runs in another thread."""

@final
class SparkApplication:
    """What its event log holds of one application."""

    @staticmethod
    def read(parts: Sequence[Any], progress: Callable[[int], object]) -> SparkApplication:
        """Read the parts of one log, in order: paths, or objects with ``read(n)``.

        ``progress`` gets the bytes of text so far. OSError where a part cannot be read, ValueError
        where it is damaged."""
    def to_json(self) -> str:
        """All of it but single tasks; stages have the sums of theirs."""
    def overfull_executor(self) -> tuple[str, int] | None:
        """An executor that ran more tasks at once than it has cores, and how many."""
    def tasks_outside_stages(self) -> int:
        """Tasks that began before their stage did, or ended after it."""
    def with_resources(
        self, executors: int | None, cores: int | None, task_memory: tuple[float, float] | None
    ) -> SparkApplication:
        """The same stages and tasks on so many executors of so many cores; None: as in the log.

        ``task_memory`` is what a task has today (bytes), and the factor on it."""
    def memory_factor_without_spills(self, memory_bytes: float) -> float | None:
        """The factor on a task's memory (bytes) with which none spills; None where none does."""
    def work(self, figures: tuple[float, float, float, float, float, bool] | None) -> SparkWork:
        """The work of its tasks, if it ran with its temp files on a storage; None: without waits.

        ``figures`` are bandwidths (bytes/s) of a reader alone, of all readers and of writeback,
        page cache and dirty limit (bytes), and whether reads and writes share the bandwidth."""
    def least_work(
        self, figures: tuple[float, float, float, float, float, bool] | None
    ) -> SparkWork:
        """The least work of its tasks on a storage; None: whatever storage it ran on.

        On a storage no task waited longer than all its bytes take beside as busy other slots."""
    def local_io(self) -> tuple[list[int], list[int], list[int]]:
        """By task: launch and end, in ms since 1970, and bytes that it moved on local storage."""
    def work_beside(self, waits_s: Sequence[float]) -> SparkWork:
        """The work of its tasks, if each waited so long for storage (s)."""
    def simulate(
        self, figures: tuple[float, float, float, float, float, bool] | None, work: SparkWork
    ) -> tuple[
        float,
        list[tuple[float, float, float, float, float]],
        list[tuple[float, float]],
        list[tuple[float, float]],
    ]:
        """Elapsed time; by stage begin, end, work, waits for reads and writes; executions; jobs.

        In seconds."""

@final
class SparkWork:
    """By task, the time that no storage changes."""

@final
class TraceReader:
    """Reads traces; ``profile`` or ``rows`` does the work, other threads may watch and cancel."""

    def __new__(
        cls,
        paths: Sequence[str],
        *,
        lenient: bool = False,
        windows_us: Sequence[tuple[int, int]] = ...,
    ) -> TraceReader: ...
    def profile(
        self,
        by: Sequence[str],
        *,
        calls: bool = True,
        quantiles: Sequence[tuple[str, float]] = ...,
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Groups by each of event, op, temp, blocks, file, object, sql, session, second, ..."""
    def rows(
        self,
        take: Any,
        *,
        columns: Sequence[tuple[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Hand all rows to ``take(waits, calls, statements, row_sources, binds)`` in batches."""
    @staticmethod
    def no_rows() -> list[Table]:
        """The tables of ``rows`` where columns are given, without a row."""
    def progress(self) -> int:
        """Bytes read so far."""
    def cancel(self) -> None:
        """End the reading that another thread does."""
