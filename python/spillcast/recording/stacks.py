"""stacks.json of a recording: the functions that the observed threads ran, with their callers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from spillcast.document import key, read
from spillcast.errors import EvidenceUnsuited
from spillcast.gate import damaged, json_of, text_of
from spillcast.recording.recording import AGAIN

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording

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
    """Describes a function; those of a module without names are one."""

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
    """Holds what a capture sampled of the stacks of running threads, in user mode."""

    schema: str = key("`spillcast.stacks/1`", example="spillcast.stacks/1")
    samples_per_s: float = key("how often a running thread is sampled", unit="1/s", example=99.8)
    samples: int = key("all samples", unit="samples", example=1204)
    left_out: int = key("samples for which there was no room", unit="samples", example=0)
    modules: Sequence[Module] = key("what the functions belong to")
    functions: Sequence[Function] = key("the functions")
    stacks: Sequence[CountedStack] = key("the counted stacks, the most samples first")

    def __post_init__(self) -> None:
        """Refuse positions of what is not there."""
        named = [function.module for function in self.functions]
        run = list(chain.from_iterable(stack.functions for stack in self.stacks))
        if max(named, default=-1) >= len(self.modules) or max(run, default=-1) >= len(
            self.functions
        ):
            raise ValueError("a position is beyond the end of its list")
        if not all(stack.functions for stack in self.stacks) or self.samples_per_s <= 0:
            raise ValueError("a stack without functions, or no sampling rate")


def has_stacks(recording: "Recording") -> bool:
    """Whether the functions of its threads were sampled."""
    return (recording.path / STACKS_FILE).is_file()


def stacks_of(recording: "Recording") -> Stacks:
    """The sampled stacks. InputError if there are none, or they are damaged."""
    path = recording.path / STACKS_FILE
    if not path.is_file():
        raise EvidenceUnsuited(
            f"{recording.path}: functions were not sampled",
            "record again with --capture bpf or perf, without --all and --minute; a run that "
            "hardly uses the CPU has no samples",
        )
    document = json_of(text_of(path, AGAIN), path, AGAIN)
    try:
        return read(Stacks, document, str(path), AGAIN)
    except ValueError as error:
        raise damaged(path, str(error), AGAIN) from error
