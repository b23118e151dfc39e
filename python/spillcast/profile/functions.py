"""The CPU time of each function that the threads of a recording ran, from stacks.json."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from spillcast.document import key, read
from spillcast.errors import EvidenceUnsuited, QueryInvalid
from spillcast.gate import json_of, reading, text_of
from spillcast.profile.result import FUNCTION, Profile
from spillcast.recording.meta import COPY_AGAIN
from spillcast.recording.recording import Recording
from spillcast.units import format_duration

#: The keys of each row, and an optional key.
_KEYS, _THREAD = (FUNCTION, "module"), "thread"
UNNAMED, TRUNCATED = "[unknown]", "[truncated]"
#: Warnings are for more than this share of the samples, or of all CPU time for the kernel's.
_NOTABLE, _KERNEL_NOTABLE = 0.05, 0.1
_COMPILED = "compiled at run time"
_MODULES_NAMED = 3
#: A flame graph is cut off at the first row with a smaller share of the samples.
_ROW_SHARE_MIN = 0.02
#: Narrower frames and deeper rows of a flame graph are not drawn; a page has some 1,000 px.
_FRAME_SHARE_MIN, _ROWS_MAX = 0.004, 60
STACKS_FILE = "stacks.json"


@dataclass(frozen=True)
class Module:
    """Describes a program, a library, or code that a runtime compiled."""

    name: str = key("name of the file", example="postgres")
    build_id: str | None = key("its GNU build id", example="1a2b3c4d", default=None)
    symbols: str = key(
        "which of its functions have names: `all`, `exported` of a stripped file, or `none`",
        example="exported",
        default="none",
    )


@dataclass(frozen=True)
class Function:
    """Describes a function; all functions without a name in a module count as one."""

    name: str | None = key(
        "its name without parameters; null if it has none", example="tuplesort_performsort"
    )
    module: int = key("position of its module", example=0)


@dataclass(frozen=True)
class CountedStack:
    """Counts the samples of a thread name and list of functions."""

    thread: str = key("name of the threads", example="postgres")
    functions: Sequence[int] = key(
        "positions of functions, from the one that ran to its callers", example=[4, 2, 0]
    )
    complete: bool = key("whether these are all of its callers", example=True)
    samples: int = key("how often it was sampled", unit="samples", example=12)


@dataclass(frozen=True)
class Stacks:
    """Holds the sampled stacks of running threads in user mode."""

    schema: str = key("`spillcast.stacks/1`", example="spillcast.stacks/1")
    samples_per_s: float = key("how often a running thread is sampled", unit="1/s", example=99.8)
    samples: int = key("all samples", unit="samples", example=1204)
    left_out: int = key("samples for which there was no room", unit="samples", example=0)
    modules: Sequence[Module] = key("what the functions belong to")
    functions: Sequence[Function] = key("the functions")
    stacks: Sequence[CountedStack] = key("the counted stacks, the most samples first")

    def __post_init__(self) -> None:
        """ValueError for positions beyond the end of a list."""
        last_module = max((function.module for function in self.functions), default=-1)
        last = max(chain.from_iterable(stack.functions for stack in self.stacks), default=-1)
        if last_module >= len(self.modules) or last >= len(self.functions):
            raise ValueError("a position is beyond the end of its list")
        if not all(stack.functions for stack in self.stacks) or self.samples_per_s <= 0:
            raise ValueError("a stack without functions, or no sampling rate")


def has_stacks(recording: Recording) -> bool:
    """Whether a recording has sampled stacks."""
    return (recording.path / STACKS_FILE).is_file()


def stacks_of(recording: Recording) -> Stacks:
    """The sampled stacks. InputError if there are none, or they are damaged."""
    path = recording.path / STACKS_FILE
    if not path.is_file():
        raise EvidenceUnsuited(
            "functions were not sampled",
            "record again with --capture bpf or perf, without --all and --minute; a run that "
            "hardly uses the CPU has no samples",
            recording.path,
        )
    with reading(path, COPY_AGAIN):
        return read(Stacks, json_of(text_of(path)))


def by_function(recording: Recording, by: Sequence[str] = (FUNCTION,)) -> Profile:
    """A row for each function and module, by thread name too if ``by`` has it; most CPU first.

    InputError if stacks were not sampled.
    """
    if wrong := [name for name in by if name not in (*_KEYS, _THREAD)]:
        raise QueryInvalid(f"--by: function does not go with {wrong[0]}", f"it goes with {_THREAD}")
    by = [*_KEYS, *((_THREAD,) if _THREAD in by else ())]
    stacks = stacks_of(recording)
    own_samples, with_callees = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for stack in stacks.stacks:
        keys = _keys(stacks, stack, by)
        own_samples[keys[0]] += stack.samples
        # For a recursive function, a sample counts once.
        for row_key in set(keys):
            with_callees[row_key] += stack.samples
    total = sum(own_samples.values()) or 1
    us = 1e6 / stacks.samples_per_s
    rows: list[dict[str, Any]] = [
        dict(zip(by, key, strict=True))
        | {
            "total_us": own_samples[key] * us,
            "share": own_samples[key] / total,
            "with_callees_us": samples * us,
            "with_callees_share": samples / total,
            "count": own_samples[key],
            "idle": False,
        }
        for key, samples in with_callees.items()
    ]
    rows.sort(key=lambda row: (-row["total_us"], -row["with_callees_us"], str(row[by[0]])))
    return Profile(
        by=by,
        elapsed_s=recording.elapsed_s,
        rows=rows,
        warnings=_weaknesses(stacks),
        words=[cpu_text(recording, stacks)],
    )


def _keys(stacks: Stacks, stack: CountedStack, by: Sequence[str]) -> list[tuple[str, ...]]:
    """The values of ``by`` for each function of a stack, the innermost first.

    For a function without a name, the value contains the name of its caller.
    """
    keys, caller = list[tuple[str, ...]](), ""
    for at in reversed(stack.functions):
        function = stacks.functions[at]
        caller = function.name or caller
        name = function.name or (f"{UNNAMED} below {caller}" if caller else UNNAMED)
        module = stacks.modules[function.module].name
        values = {FUNCTION: name, "module": module, "thread": stack.thread}
        keys.append(tuple(values[name] for name in by))
    return keys[::-1]


def cpu_text(recording: Recording, stacks: Stacks) -> str:
    """The sampled CPU time, and the CPU time in the kernel, which is not sampled, as text."""
    sampled_s = stacks.samples / stacks.samples_per_s
    words = (
        f"{format_duration(sampled_s)} of CPU time in functions of programs, by {stacks.samples:,} "
        f"samples ({stacks.samples_per_s:g} for each second of CPU)"
    )
    meta = recording.meta
    if meta.cpu_s is None:
        return words
    kernel_s = meta.cpu_s + (meta.capture.spun_s or 0.0) - sampled_s
    if kernel_s < _KERNEL_NOTABLE * (sampled_s + kernel_s):
        return words
    return f"{words}; some {format_duration(kernel_s)} more in the kernel, outside of I/O"


def _weaknesses(stacks: Stacks) -> list[str]:
    """Warnings about functions without names, truncated stacks and lost samples, with remedies."""
    total = sum(stack.samples for stack in stacks.stacks) or 1
    unnamed, cut = Counter[int](), 0
    for stack in stacks.stacks:
        function = stacks.functions[stack.functions[0]]
        if function.name is None:
            unnamed[function.module] += stack.samples
        cut += 0 if stack.complete else stack.samples
    warnings = list[str]()
    if unnamed.total() > _NOTABLE * total:
        modules = [stacks.modules[at] for at, _ in unnamed.most_common(_MODULES_NAMED)]
        warnings.append(
            f"{unnamed.total() / total:.0%} of the samples are in functions without names: "
            + "; ".join(map(_remedy, modules))
        )
    if cut > _NOTABLE * total:
        warnings.append(
            f"of {cut / total:.0%} of the samples the outer callers are unknown: the "
            "stacks are deeper than the 32 KiB that are sampled, or cannot be unwound"
        )
    if stacks.left_out:
        warnings.append(f"{stacks.left_out:,} samples were lost for lack of room")
    return warnings


def _remedy(module: Module) -> str:
    if module.name == _COMPILED:
        return (
            "a runtime compiled code (Java: jcmd PID Compiler.perfmap before it ends; Node.js: "
            "--perf-basic-prof; Python 3.12: -X perf)"
        )
    if module.symbols == "all":
        return f"{module.name} has no names for some of its code"
    build_id = f" for build id {module.build_id[:12]}" if module.build_id else ""
    return (
        f"{module.name} is stripped; install its debug symbols (package ...-dbgsym or "
        f"...-debuginfo{build_id}) and record again"
    )


def folded(stacks: Stacks) -> Iterator[str]:
    """Lines for flamegraph.pl, inferno and speedscope: ``thread;caller;function samples``."""
    counts = Counter[str]()
    for stack in stacks.stacks:
        names = [name for name, _ in path_of(stacks, stack)]
        parts = [name.replace(";", ":").replace("\n", " ") for name in names]
        counts[";".join(parts)] += stack.samples
    for line, samples in sorted(counts.items()):
        yield f"{line} {samples}"


def path_of(stacks: Stacks, stack: CountedStack) -> list[tuple[str, str]]:
    """The name of the thread, then names and modules of its functions, the outermost first."""
    path = [(stack.thread, ""), *(() if stack.complete else ((TRUNCATED, ""),))]
    for at in reversed(stack.functions):
        function = stacks.functions[at]
        module = stacks.modules[function.module].name
        path.append((function.name or f"[{module}]", module))
    return path


@dataclass
class Frame:
    """A function in a flame graph, with its callees."""

    name: str
    module: str = ""
    samples: int = 0
    callees: "dict[tuple[str, str], Frame]" = field(default_factory=dict)


def flame(stacks: Stacks) -> Frame:
    """The tree of all stacks; its root is the innermost function that all stacks share."""
    root = Frame("all")
    for stack in stacks.stacks:
        frame = root
        frame.samples += stack.samples
        for function in path_of(stacks, stack):
            frame = frame.callees.setdefault(function, Frame(*function))
            frame.samples += stack.samples
    while len(root.callees) == 1:
        [callee] = root.callees.values()
        if callee.samples < root.samples:
            break
        root = callee
    return root


def drawn_frames(root: Frame) -> list[dict[str, Any]]:
    """The frames of a flame graph by rows, without the narrowest.

    The graph is cut off at the first row that has less than 2 % of all samples. ``start`` and
    ``share`` are shares of the width of the graph.
    """
    total = root.samples or 1
    frames: list[dict[str, Any]] = []
    level = [(0.0, root)]
    for depth in range(_ROWS_MAX):
        if sum(frame.samples for _, frame in level) < _ROW_SHARE_MIN * total:
            break
        below: list[tuple[float, Frame]] = []
        for start, frame in level:
            share = frame.samples / total
            function = {"function": frame.name, "module": frame.module}
            frames.append(function | {"depth": depth, "start": start, "share": share})
            for callee in sorted(frame.callees.values(), key=lambda f: (-f.samples, f.name)):
                if callee.samples >= _FRAME_SHARE_MIN * total:
                    below.append((start, callee))
                start += callee.samples / total
        level = below
    return frames
