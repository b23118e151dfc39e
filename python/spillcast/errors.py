"""The errors of spillcast: a class for each kind, with a code, an exit status and a remedy.

The code is the name of the class in kebab case; it is stable, the message is not. Raise a specific
class: the base classes only determine the exit status. docs/schema.md lists the codes with these
docstrings.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

ERROR_SCHEMA = "spillcast.error/1"


class SpillcastError(Exception):
    """An error that a user can act on: what is wrong, where, and what fixes it."""

    exit_status: ClassVar[int] = 1
    code: ClassVar[str] = "failed"

    def __init__(
        self, message: str, hint: str | None = None, where: str | Path | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint: str | None = None
        #: The file, folder or address that the message begins with, if it was given as such.
        self.where: str | None = None
        place(self, where, hint)
        #: The document that ``--json`` prints, if the command has one for this error.
        self.document: Mapping[str, Any] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def to_json(self) -> Mapping[str, Any]:
        """The document that ``--json`` prints in place of an answer."""
        return self.document or {
            "schema": ERROR_SCHEMA,
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "hint": self.hint,
            "exit_status": self.exit_status,
        }


class InputError(SpillcastError):
    """Bad usage or bad input: a flag, a file, a process or a directory that cannot be used."""

    exit_status = 2


class Refusal(SpillcastError):
    """The evidence does not allow a forecast; the message is the reason."""

    exit_status = 3


# Usage: verbs and options.


class UsageInvalid(InputError):
    """The command line or a call has an unknown verb or option, or lacks an argument."""


class OptionInvalid(InputError):
    """The value of an option or parameter has the wrong form or is out of range."""


class OptionMissing(InputError):
    """An option or argument that the command needs is not given."""


class OptionConflict(InputError):
    """Options exclude each other, or do not apply to this command or evidence."""


class ChoiceUnknown(InputError):
    """A word is not one of the engines, policies, workloads, figures or sources that exist."""


class EngineUnsupported(InputError):
    """The engine does not support the command."""


class QueryInvalid(InputError):
    """A condition, an expression or a query over the evidence cannot be evaluated."""


class TerminalMissing(InputError):
    """A live view needs a terminal on standard error."""


# Files and directories.


class PathMissing(InputError):
    """A file or a directory does not exist."""


class PathUnusable(InputError):
    """A path is of the wrong kind, such as a directory, a link or a device."""


class FileUnreadable(InputError):
    """The system does not let a file be read."""


class FileTooLarge(InputError):
    """A file is larger than spillcast reads."""


class OutputExists(InputError):
    """The output exists and is not replaced."""


class OutputUnwritable(InputError):
    """The place of the output cannot be written to."""


class WriteFailed(SpillcastError):
    """The output could not be written."""


class SpaceInsufficient(InputError):
    """A directory or a memory file system has too little free space."""


class SpaceExhausted(SpillcastError):
    """A directory or a disk quota filled up during a measurement."""


class InUse(InputError):
    """Another spillcast process uses the output."""


class LockTaken(SpillcastError):
    """Another process holds the lock that the command needs."""


# Evidence and documents.


class EvidenceMissing(InputError):
    """No evidence is given, or a folder holds none."""


class EvidenceUnknown(InputError):
    """A file is not evidence, or not of the kind that the command reads."""


class EvidenceDamaged(InputError):
    """A file of evidence or a document is cut or damaged."""


class EvidenceIncomplete(InputError):
    """The evidence lacks a column, a figure or a part that a forecast needs."""


class EvidenceContradictory(InputError):
    """Figures of the evidence contradict each other or are impossible."""


class EvidenceMixed(InputError):
    """Files of several kinds, servers, days or queries are given as one run."""


class EvidenceAmbiguous(InputError):
    """The evidence holds several runs, and the command needs the choice of one."""


class EvidenceUnsuited(InputError):
    """The evidence is valid, but does not show what the command needs."""


class SchemaUnsupported(InputError):
    """A document has a schema that this version does not read."""


class SelectionEmpty(InputError):
    """Nothing in the evidence matches the choice or the condition."""


class NoTempIo(InputError):
    """The query of the evidence does no temp I/O."""


class QueryEnded(InputError):
    """The query ended before it was observed, or nothing of it remains to forecast."""


# Storages.


class TargetUnknown(InputError):
    """A storage is not known by this name, or was not measured."""


class TargetInvalid(InputError):
    """The description of a storage has an impossible parameter."""


class TargetIncomplete(InputError):
    """A storage has no figures for the operations that the command needs."""


class TargetUnsuited(InputError):
    """A storage cannot be compared with this kind of evidence."""


class CalibrationMissing(InputError):
    """There is no calibration of this machine."""


# Processes, programs and capture.


class ProcessMissing(InputError):
    """A process or a session does not exist or has ended."""


class ProgramMissing(InputError):
    """A program that the command runs is not installed or cannot be run."""


class PackageMissing(InputError):
    """An optional Python package is not installed."""


class PermissionDenied(InputError):
    """The user or the role may not see or change what the command needs."""


class CaptureUnavailable(InputError):
    """No capture source can observe the process on this system."""


class NothingRecorded(InputError):
    """A recording saw no sample and no event."""


# Servers and services.


class ServerUnreachable(InputError):
    """The server does not accept the connection."""


class ServerUnsuited(InputError):
    """The server, its version or its configuration does not allow the command."""


class StatementRejected(InputError):
    """The server rejects a statement, a setting or a pattern of the user."""


class StatementFailed(SpillcastError):
    """The server failed or cancelled a statement, or ended the session."""


class SessionAmbiguous(InputError):
    """Several sessions of the server match."""


class SessionEnded(SpillcastError):
    """The observed session ended too early."""


class TimedOut(SpillcastError):
    """The awaited query did not start in time."""


class MoveBlocked(InputError):
    """The state of the server's tablespaces does not allow the move."""


class MoveFailed(SpillcastError):
    """A step of moving temp files failed or had no effect."""


class SystemFailed(SpillcastError):
    """The operating system does not do what the command needs."""


class ExperimentFailed(SpillcastError):
    """An engine or a tool failed in an experiment of spillcast."""


# Refusals: no forecast.


class NotSpilled(Refusal):
    """The recorded query did no temp I/O, so no storage changes its time."""


class TimesUnknown(Refusal):
    """The evidence does not contain the times or the single operations that a forecast needs."""


class TimesContradictory(Refusal):
    """The times of the I/O exceed the time that the query's processes can have waited."""


class RecordingInsufficient(Refusal):
    """The recording lost too much, contradicts itself or has overlapping I/O."""


class CpuTimeUnknown(Refusal):
    """A CPU limit applies, and the CPU time of the threads is unknown."""


class FiguresMissing(Refusal):
    """The storage has no figures for operations that the query does."""


class SpillTooLarge(Refusal):
    """The temp files do not fit into the storage or into memory."""


class IntervalTooWide(Refusal):
    """The evidence bounds the time on the storage too loosely for a number."""


class RehearsalRefused(Refusal):
    """The command or the query cannot be repeated safely."""


class RehearsalFailed(Refusal):
    """The rehearsal failed or did no temp I/O."""


#: Errors about a file whose hint may be to create it or give it again.
OF_MAKING = (
    EvidenceUnknown, EvidenceDamaged, EvidenceIncomplete, EvidenceContradictory, FileTooLarge,
)  # fmt: skip
#: Errors about the content of a file; ``gate.reading`` adds the file's name.
OF_CONTENT = (
    *OF_MAKING, EvidenceMissing, EvidenceMixed, EvidenceAmbiguous, EvidenceUnsuited,
    SchemaUnsupported, SelectionEmpty, NoTempIo, NotSpilled, TimesUnknown, TimesContradictory,
    RecordingInsufficient,
)  # fmt: skip


def place(error: SpillcastError, where: str | Path | None, hint: str | None) -> None:
    """Give ``where`` to an error without a place, and ``hint`` to one without a hint."""
    if where is not None and error.where is None:
        error.where = str(where)
        if not error.message.startswith(f"{where}:"):
            error.message = f"{where}: {error.message}"
            error.args = (error.message,)
    if hint and not error.hint:
        error.hint = hint
        # Tracebacks of scripts and notebooks show it.
        error.add_note(hint)


def kinds(base: type[SpillcastError] = SpillcastError) -> Iterator[type[SpillcastError]]:
    """The classes to raise, in the order of this file."""
    for kind in base.__subclasses__():
        if kind not in (InputError, Refusal):
            yield kind
        yield from kinds(kind)


def is_interruption(error: Exception) -> bool:
    """Whether Ctrl-C caused it: in a query of DuckDB, or where Python was creating a class."""
    if isinstance(error.__cause__, KeyboardInterrupt):
        return True
    return isinstance(error, RuntimeError) and str(error) == "Query interrupted"


def first_line(error: Exception) -> str:
    """The message of a library's error, without its advice to programmers."""
    return next(iter(str(error).splitlines()), type(error).__name__)
