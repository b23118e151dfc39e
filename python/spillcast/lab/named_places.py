"""Storages for experiments by the words of a command line: directories, and what is emulated."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spillcast.errors import OptionConflict, OutputUnwritable, SpaceInsufficient
from spillcast.lab.storages import Emulated, Modelled, Place, emulated, fast_parent, plain
from spillcast.storage.model import behaviour_of
from spillcast.storage.target import check_word, is_place, resolve_storage
from spillcast.units import parse_latency_s
from spillcast.workspace import workspace

#: What a spill of an experiment may take in memory.
SPILL_BYTES = 1 << 30
FORMS = "a directory, tmpfs, latency:1ms, a storage.json, a recording or catalogue:NAME"


@contextmanager
def named_places(words: Sequence[str], room: Path, option: str = "--on") -> Iterator[list[Place]]:
    """A place for each word, in their order; all that they hold is gone at the end.

    InputError names a word that is not a storage, before anything is made.
    """
    if len(set(words)) < len(words):
        raise OptionConflict(f"{option}: a storage is named twice")
    requested = [_requested(word, option) for word in words]
    with ExitStack() as stack:
        memory = fast_parent(SPILL_BYTES)
        fast = stack.enter_context(workspace(memory)) if memory is not None else room
        places = []
        for word, storage in zip(words, requested, strict=True):
            if isinstance(storage, Path):
                if not storage.parts and memory is None:
                    raise SpaceInsufficient(f"{option} {word}: there is no room in shared memory")
                parent = storage if storage.parts else fast
                places.append(plain(word, stack.enter_context(workspace(parent))))
            else:
                places.append(stack.enter_context(emulated(storage, room, fast)))
        yield places


def _requested(word: str, option: str) -> Path | Emulated | Modelled:
    """What a word names; a path without parts is shared memory."""
    check_word(word, option)
    kind, colon, value = word.partition(":")
    if colon and kind == "latency":
        seconds = parse_latency_s(value, f"{option} {word}")
        return Emulated(word, seconds, seconds)
    if word == "tmpfs":
        return Path()
    path = Path(word)
    if is_place(path):
        if not os.access(path, os.W_OK | os.X_OK):
            raise OutputUnwritable(f"{option} {word}: nothing can be written there")
        return path.absolute()
    return Modelled(word, behaviour_of(resolve_storage(word, f"{option} {word}", FORMS)))
