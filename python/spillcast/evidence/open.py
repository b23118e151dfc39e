"""Sorts the files of a command line by kind of evidence, and opens the selected run."""

import glob
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from threading import Thread
from typing import IO

from spillcast.errors import (
    EvidenceMissing,
    EvidenceMixed,
    EvidenceUnknown,
    EvidenceUnsuited,
    FileTooLarge,
    PathMissing,
    PermissionDenied,
)
from spillcast.evidence.counts import Counts
from spillcast.evidence.selection import FIGURES_HINT, ONLY_RUN, Selection, is_address, is_stated
from spillcast.gate import TEXT_BYTES_MAX, check_kind
from spillcast.recording.meta import is_recording
from spillcast.recording.recording import Recording
from spillcast.text import path_hint, shell_word

STDIN = Path("/dev/stdin")
_DESCRIPTOR = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")
_BUFFER_BYTES = 1 << 20
#: Inodes of the pipes that ``_refill_pipe`` created.
_REFILLED = set[int]()
TRACES = ("*.trc", *(f"*.trc.{codec}" for codec in ("gz", "zst", "bz2", "xz", "zip")))
#: The beginning of a JSON document that spillcast itself wrote, such as a forecast.
_OWN_DOCUMENT = re.compile(r'\A\s*\{\s*"schema":\s*"spillcast\.([a-z-]+)/')
#: Hints for documents that users often give in place of evidence.
_HINTS_BY_DOCUMENT = {
    "storage": "it describes a storage: give it as a target, with --to",
    "recording": "it is one file of a recording: give its folder",
    "forecast": "spillcast check compares it with a later run; spillcast report shows it",
}
_KNOWN = (
    "a recording, a plan or profile of a query, a log or statistics of a server, an Oracle trace "
    "or report, or an event log of Spark"
)
#: The start of a server's connection string.
_DSN = re.compile(r"(?:postgres(?:ql)?|mysql|mariadb)://|(?:host|port|user|dbname|service)=")
#: Words before the colon of a storage's description, which is not evidence.
STORAGE_WORDS = ("latency", "limits", "factor", "cache", "catalogue")
#: The kinds of the files that ``spillcast collect oracle`` spools, by name; their content is not
#: considered.
SPOOLS = {
    "spillcast_ash.csv": "ash",
    "spillcast_sessions.csv": "ash",
    "spillcast_statistics.csv": "statistics",
    "spillcast_parameters.csv": "parameters",
    "spillcast_workareas.csv": "work_areas",
    "spillcast_temp.csv": "temp_usage",
}
#: Kinds that supplement evidence of time but are not sufficient alone.
_SUPPLEMENTS = ("parameters", "work_areas", "temp_usage")
#: Kinds that a collected folder may hold together; the first present gives the shares of time.
_COLLECTED = ("ash", "traces", "statistics")
#: Kinds that count operations and contain no single waits.
TOTALS = ("plans", "statements", "figures", "spark")
#: The plural of each kind in messages, by the field of ``EvidenceFiles`` that holds its paths.
KIND_WORDS = {
    "recordings": "recordings",
    "traces": "traces",
    "ash": "ASH exports",
    "statistics": "statistics",
    "parameters": "parameters of a database",
    "work_areas": "work areas",
    "temp_usage": "rows of temp usage",
    "plans": "plans and logs of PostgreSQL",
    "statements": "rows of pg_stat_statements",
    "figures": "figures of a run",
    "spark": "event logs of Spark",
}


@dataclass(frozen=True)
class EvidenceFiles:
    """Paths by kind.

    ``collected`` are those of the given folders that ``spillcast collect oracle`` filled.
    """

    recordings: list[Path] = field(default_factory=list)
    traces: list[Path] = field(default_factory=list)
    ash: list[Path] = field(default_factory=list)
    statistics: list[Path] = field(default_factory=list)
    parameters: list[Path] = field(default_factory=list)
    work_areas: list[Path] = field(default_factory=list)
    temp_usage: list[Path] = field(default_factory=list)
    plans: list[Path] = field(default_factory=list)
    statements: list[Path] = field(default_factory=list)
    #: Files, and arguments that begin with ``figures:``.
    figures: list[Path | str] = field(default_factory=list)
    #: Event logs of Spark: files, folders of parts, and URLs of fsspec.
    spark: list[Path | str] = field(default_factory=list)
    collected: list[Path] = field(default_factory=list)

    def only_waits(self) -> str:
        """``only_kind``, but InputError for totals, which contain no single waits."""
        kind = self.only_kind()
        if kind in TOTALS:
            from spillcast.evidence.recognise import recognise

            file = getattr(self, kind)[0]
            if isinstance(file, Path) and (known := recognise(file)) and known.reason:
                known.read([file], ONLY_RUN)
            hint = f"forecast it: spillcast forecast {shell_word(file)} --to catalogue:aws-gp3"
            text = f"{KIND_WORDS[kind]} contain totals, not the time of each wait"
            raise EvidenceUnsuited(text, hint, file)
        return kind

    @property
    def kinds(self) -> list[str]:
        """The kinds with a path, as names of fields."""
        return [kind for kind in KIND_WORDS if getattr(self, kind)]

    def only_kind(self) -> str:
        """The kind of all paths, as a field's name. InputError if kinds are mixed.

        Files that were collected together count as one: shares of time come from the ASH, or
        from the traces if there is no ASH.
        """
        kinds = [kind for kind in self.kinds if kind not in _SUPPLEMENTS]
        if self.kinds and not kinds:
            raise EvidenceMissing(
                f"{_joined(self.kinds)} are not evidence by themselves",
                "add a trace or an ASH export",
            )
        if self.collected and set(kinds) <= set(_COLLECTED):
            return next(kind for kind in _COLLECTED if kind in kinds)
        if len(kinds) != 1:
            raise EvidenceMixed(f"{_joined(kinds)} are mixed", "give files of one kind at a time")
        return kinds[0]


def _joined(kinds: Sequence[str]) -> str:
    return " and ".join(KIND_WORDS[kind] for kind in kinds)


def find_evidence(arguments: Sequence[str | Path]) -> EvidenceFiles:
    """Sorts files, folders and patterns by kind. InputError for none, a missing or empty one."""
    if not arguments:
        raise EvidenceMissing("no evidence is given", f"give {_KNOWN}")
    evidence = EvidenceFiles()
    for argument in map(str, arguments):
        if is_stated(argument):
            evidence.figures.append(argument)
            continue
        if is_address(argument):
            _check_no_server(argument)
            evidence.spark.append(argument)
            continue
        for path in _expand(argument):
            if spools := spools_of(path):
                evidence.collected.append(path)
                for spool in spools:
                    getattr(evidence, _kind_of(spool)).append(spool)
                evidence.traces.extend(traces_below(path))
            else:
                getattr(evidence, _kind_of(path)).extend(_files(path))
    return evidence


def spools_of(folder: Path) -> list[Path]:
    """The files with rows that ``spillcast collect oracle`` spooled into a folder, and ASH in CSV.

    SQL*Plus leaves a file empty if a query returns no row. Samples of V$SESSION are omitted if
    there is ASH, which contains the same samples.
    """
    if folder.suffix == ".spill" or not folder.is_dir() or _is_log_folder(folder):
        # Listing a recording may be permitted only to its owner.
        return []
    from spillcast.evidence.text import head_of

    paths = [folder / name for name in SPOOLS if (folder / name).is_file()]
    paths = [path for path in paths if head_of(path, 4096).strip()]
    others = [path for path in sorted(folder.glob("*.csv")) if path.name not in SPOOLS]
    # The heading rules out most other tables faster than recognition does.
    exports = [
        path
        for path in others
        if path.is_file()
        and "sample_time" in head_of(path, 4096).lower()
        and kind_of(path) == "ash"
    ]
    paths += exports
    if exports or folder / "spillcast_ash.csv" in paths:
        paths = [path for path in paths if path.name != "spillcast_sessions.csv"]
    return paths


def _expand(argument: str) -> list[Path]:
    if not argument:
        raise EvidenceMissing("an argument is empty, and names no evidence", f"give {_KNOWN}")
    path = rereadable(argument)
    check_kind(path)
    if recordings := recordings_in(path):
        return [*recordings, *([path] if traces_below(path) else [])]
    if path.exists() or path.suffix == ".spill":
        return [path]
    if matches := [Path(name) for name in sorted(glob.glob(argument, recursive=True))]:
        if broken := next((match for match in matches if not match.exists()), None):
            raise PathMissing("the symbolic link leads to no file", where=broken)
        return matches
    _check_no_server(argument)
    is_target = argument.partition(":")[0] in STORAGE_WORDS or argument == path.stem
    hint = path_hint(path) or ("give a path; a target is named with --to" if is_target else None)
    raise PathMissing("there is no such file or folder", hint, argument)


def rereadable(argument: str) -> Path:
    """The path of an argument; ``-`` is standard input.

    An unnamed temporary file with the content of a pipe takes over its descriptor. If the content
    exceeds TEXT_BYTES_MAX, a trace remains a pipe, because it is read only once; other kinds raise
    FileTooLarge.
    """
    path = STDIN if argument == "-" else Path(argument)
    if (match := _DESCRIPTOR.fullmatch(str(path))) is None:
        return path
    descriptor = int(match[1] or 0)
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        raise EvidenceMissing(str(error.strerror), "give a file", path) from error
    if not stat.S_ISREG(status.st_mode) and status.st_ino not in _REFILLED:
        _pipe_to_file(path, descriptor)
    return path


def _pipe_to_file(path: Path, descriptor: int) -> None:
    """Replaces a pipe's descriptor by a file with the pipe's content."""
    with ExitStack() as stack:
        pipe = stack.enter_context(os.fdopen(os.dup(descriptor), "rb", buffering=0))
        kept = stack.enter_context(tempfile.TemporaryFile(prefix="spillcast-"))
        while (block := pipe.read(_BUFFER_BYTES)) and kept.tell() + len(block) <= TEXT_BYTES_MAX:
            kept.write(block)
        kept.write(block)
        kept.flush()
        kept.seek(0)
        os.dup2(kept.fileno(), descriptor)
        if not block:
            return
        if kind_of(path, score_min=0.0) not in (None, "traces"):
            raise FileTooLarge(f"more than {TEXT_BYTES_MAX >> 20} MiB", "give a file", path)
        stack.pop_all()
        _refill_pipe(kept, pipe, descriptor)


def _refill_pipe(kept: IO[bytes], rest: IO[bytes], descriptor: int) -> None:
    """Replaces the descriptor by a pipe into which a thread writes ``kept`` and then ``rest``."""
    end, begin = os.pipe()
    _REFILLED.add(os.fstat(end).st_ino)
    os.dup2(end, descriptor)
    os.close(end)

    def copy() -> None:
        with kept, rest, os.fdopen(begin, "wb", buffering=0) as out:
            for source in (kept, rest):
                shutil.copyfileobj(source, out, _BUFFER_BYTES)

    # If the reader stops early, the thread blocks for ever, which must not keep the process alive.
    Thread(target=copy, name="spillcast-pipe", daemon=True).start()


def _check_no_server(argument: str) -> None:
    """Raises EvidenceUnsuited for a connection string."""
    if _DSN.match(argument):
        raise EvidenceUnsuited(
            f"{argument} names a server, which is not evidence",
            "spillcast postgres DSN or mysql DSN ranks its statements; spillcast record --postgres "
            "DSN or --mysql DSN, with --query PATTERN, records one",
        )


def _kind_of(path: Path) -> str:
    """The field of ``EvidenceFiles`` that holds a path. EvidenceUnknown if no field does."""
    if path.suffix == ".spill" or is_recording(path):
        return "recordings"
    if _is_log_folder(path):
        return "spark"
    if not path.is_file() or _is_trace_name(path.name):
        return "traces"
    if (spooled := SPOOLS.get(path.name.lower())) is not None:
        return spooled
    # A recording is opened without the readers of text.
    from spillcast.evidence.text import head_of

    head = head_of(path)
    if not head.strip():
        raise EvidenceUnknown("is empty", f"give {_KNOWN}", path)
    if (document := _OWN_DOCUMENT.match(head)) is not None:
        hint = _HINTS_BY_DOCUMENT.get(document[1], f"give {_KNOWN}")
        raise EvidenceUnknown(f"a spillcast {document[1]}, not evidence", hint, path)
    if (kind := kind_of(path, score_min=0.0)) is not None:
        return kind
    hint = f"give {_KNOWN}; {FIGURES_HINT}"
    raise EvidenceUnknown("not evidence of a known kind", hint, path)


def kind_of(path: Path, score_min: float = 1.0) -> str | None:
    """The kind of a file, as a field of ``EvidenceFiles``; None if none reaches ``score_min``."""
    # Imported here because a start with a recording does not need the readers of text.
    from spillcast.evidence.recognise import recognise

    kind = recognise(path, score_min)
    return None if kind is None else kind.name


def _files(path: Path) -> list[Path]:
    if not path.is_dir() or path.suffix == ".spill" or is_recording(path) or _is_log_folder(path):
        return [path]
    if not (paths := traces_below(path)):
        held = sorted(path.iterdir())
        known = (at for at in held if _is_log_folder(at) or (at.is_file() and kind_of(at)))
        example = next(known, None)
        hint = "a directory for temp files is a target: name it with --to"
        if example is not None:
            hint = f"name what it holds, such as {shell_word(example)}"
        raise EvidenceMissing(f"the folder holds no traces ({', '.join(TRACES)})", hint, path)
    return paths


def _is_log_folder(path: Path) -> bool:
    """Whether a folder holds the parts of an event log of Spark."""
    if not path.is_dir():
        return False
    from spillcast.evidence.spark import parts_of

    return bool(parts_of([child.name for child in path.iterdir()]))


def recordings_in(folder: Path) -> list[Path]:
    """The recordings in a folder, such as those of a server's queries; empty for a recording."""
    if folder.suffix == ".spill" or not folder.is_dir() or is_recording(folder):
        return []
    return sorted(path for path in folder.iterdir() if is_recording(path))


def traces_below(folder: Path) -> list[Path]:
    """Files below a folder that have the names of traces.

    Pipes are left out, because reading one would wait for its writer. A broken link is included and
    reported as a missing trace. PermissionDenied if a folder that cannot be listed may hold more.
    """
    errors = list[OSError]()
    paths = [
        Path(parent) / name
        for parent, _, names in os.walk(folder, onerror=errors.append)
        for name in filter(_is_trace_name, names)
    ]
    # A folder that is removed during the walk, as happens below /tmp, has no traces.
    closed = next((error for error in errors if isinstance(error, PermissionError)), None)
    if paths and closed is not None:
        hint = "read it as a user who may list it, or name the traces"
        raise PermissionDenied("the folder cannot be listed", hint, closed.filename)
    return sorted(path for path in paths if path.is_file() or not path.exists())


def _is_trace_name(name: str) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in TRACES)


def open_evidence(
    evidence: EvidenceFiles, selection: Selection, recording: Recording | None = None
) -> Recording | Counts:
    """The only recording or export, read by the reader of its kind.

    ``recording`` is the recording if it is already open. InputError for several runs, and for
    anything that the reader refuses.
    """
    kind = evidence.only_kind()
    if kind == "figures":
        return read_figures(evidence.figures, selection)
    paths = getattr(evidence, kind)
    if len(paths) > 1:
        names = f"{paths[0]}, {paths[1]}{', ...' if len(paths) > 2 else ''}"
        raise EvidenceMixed(
            f"{len(paths)} files are given: {names}",
            "forecast one query at a time; give other runs of it as --history",
        )
    if kind == "recordings":
        recording = recording or Recording.open(paths[0])
        if recording.plan_alone is None:
            from spillcast.recording.derived import with_temp

            return with_temp(recording, selection.temp_dirs)
        from spillcast.evidence.postgres.plan import plan_counts

        return plan_counts(recording, selection)
    if kind == "plans":
        from spillcast.evidence.postgres.plan import read_plan

        return read_plan(paths[0], selection)
    from spillcast.evidence.postgres.statements import read_statements

    return read_statements(paths[0], selection)


def read_figures(given: Sequence[str | Path], selection: Selection = ONLY_RUN) -> Counts:
    """The counts of files of figures, or of an argument that begins with ``figures:``.

    Several files may be parts of one report. InputError for damaged files. Refusal, if
    ``selection.timed``, if the evidence has no time.
    """
    if len(given) == 1 and is_stated(str(given[0])):
        from spillcast.evidence.figures import counts_of_argument

        return counts_of_argument(str(given[0]), selection)
    from spillcast.evidence.recognise import recognise

    paths = [Path(path) for path in given]
    kinds = set(map(recognise, paths))
    kind = kinds.pop()
    if kind is None or kinds or kind.name != "figures" or (len(paths) > 1 and not kind.joins):
        raise EvidenceMixed(
            f"{len(paths)} files of figures are given", "forecast one run at a time"
        )
    return kind.read(paths, selection)
