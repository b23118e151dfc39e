"""The meaning of the codes of warnings, from explained.toml beside this file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

EXPLAINED = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Explained:
    """A warning in a few words, why it weakens a number, and what to do."""

    title: str
    cause: str
    next_step: str


@cache
def explained() -> Mapping[str, Explained]:
    """All of them by code."""
    record = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {code: Explained(**about) for code, about in record.items()}


def title_of(code: str) -> str:
    """A warning in a few words; its code where it is one of another version."""
    about = explained().get(code)
    return code if about is None else about.title
