"""Suggests the storage that a mistyped TARGET was meant to name."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from spillcast.errors import InputError, TargetUnknown
from spillcast.recording.near import near_path
from spillcast.units import parse_latency_s

_KINDS = {"lat": "latency", "cat": "catalogue"}
_ALL_KINDS = ("latency", "limits", "factor", "cache", "catalogue", *_KINDS)
#: A form in another spelling, such as ``latency=150us`` or ``Catalog:aws-gp3``.
_FORM = re.compile(r"\s*([a-z]+)(?:\s*+[:=]|\s)\s*+(\S(?:.*\S)?)\s*", re.I)
#: The least similarity of a mistyped word.
_ALIKE = 0.7
_TIMES = re.compile(r"\s*(?:x\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:x|times))\s*", re.I)
_MEMORY = {"ram", "mem", "memory", "shm", "ramdisk", "ramfs"}


def check_word(text: str, option: str) -> None:
    """InputError for an empty word, which is no path either: often a variable that is unset."""
    if not text.strip():
        raise TargetUnknown(f"{option} '{text}': names nothing", "is a shell variable unset?")


def meant(text: str, forms: str) -> str | None:
    """The likely meaning of ``text`` among ``forms``; None if nothing is similar."""
    for word in (_other_form(text), *_names(text)):
        kind, colon, _ = (word or "").partition(":")
        known = word != "tmpfs" if not colon else f"{kind}:" in forms
        if word and word != text and (known or word in forms):
            return word
    return None


def _other_form(text: str) -> str | None:
    """The form of the word that is a form in another spelling, or the value of one."""
    if (form := _FORM.fullmatch(text)) and (kind := _like(form[1], _ALL_KINDS)) is not None:
        return f"{_KINDS.get(kind, kind)}:{form[2]}"
    if times := _TIMES.fullmatch(text):
        return f"factor:{times[1] or times[2]}"
    try:
        parse_latency_s(text)
    except InputError:
        return None
    return f"latency:{text.replace(' ', '')}"


def _like(word: str, words: Iterable[str]) -> str | None:
    """The candidate that equals or resembles a word; None if none does."""
    return next(iter(get_close_matches(word.lower(), words, n=1, cutoff=_ALIKE)), None)


def _names(text: str) -> list[str]:
    """Similar names and paths, the most similar first."""
    if text.strip().lower() in _MEMORY or _like(text.strip(), ["tmpfs"]):
        return ["tmpfs"]
    home = Path(text).expanduser() if text.startswith("~") else None
    path = home if home is not None and home.exists() else near_path(Path(text))
    names = [] if path is None else [str(path)]
    if "/" not in text and not Path(text).suffix:
        from spillcast.storage.catalogue import nearest

        names += [f"catalogue:{name}" for name in nearest(text)[:1]]
    return names
