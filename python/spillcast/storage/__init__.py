"""Storages: how long their operations take, and the source of that knowledge."""

import sys
from types import ModuleType

from spillcast.storage.storage import Group, Limit, Storage

__all__ = ["Group", "Limit", "Storage"]


class _Callable(ModuleType):
    """Makes ``spillcast.storage`` both a package and a function."""

    def __call__(self, word: str) -> Storage:
        """The storage of a storage.json, a recording, or ``catalogue:NAME``.

        InputError for anything else. Directories are probed by ``spillcast probe`` and forecasts.
        """
        from spillcast.storage.target import resolve_storage

        return resolve_storage(str(word))


sys.modules[__name__].__class__ = _Callable
