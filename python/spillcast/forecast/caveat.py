"""The warnings of a forecast: each has a code, with a title and a next step in explained.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from spillcast.document import later

EXPLANATIONS = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True)
class Explanation:
    """A warning's title, why it weakens a number, and the next step, by engine or for all."""

    title: str
    cause: str
    next_step: str
    by_engine: Mapping[str, str] = field(default_factory=dict)


@cache
def explanations() -> Mapping[str, Explanation]:
    """The explanation of each warning by code."""
    record = tomllib.loads(EXPLANATIONS.read_text(encoding="utf-8"))
    return {code: Explanation(**about) for code, about in record.items()}


@dataclass(frozen=True)
class Caveat:
    """A weakness of the forecast; ``code`` is stable, the other fields are text for people."""

    code: str
    message: str
    #: Title and next step; None for a code that is unknown to this version.
    title: str | None = later()
    next_step: str | None = later()

    def __post_init__(self) -> None:
        if self.title is None and (about := explanations().get(self.code)) is not None:
            object.__setattr__(self, "title", about.title)
            object.__setattr__(self, "next_step", about.next_step)

    def of_engine(self, engine: str) -> "Caveat":
        """The same warning, with the next step for evidence of an engine."""
        about = explanations().get(self.code)
        step = None if about is None else about.by_engine.get(engine)
        return self if step is None else replace(self, next_step=step)
