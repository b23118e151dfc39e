"""Storage: how long its operations take, and where that is known from."""

import sys
from types import ModuleType

from spillcast.storage.limit import Limit
from spillcast.storage.storage import Group, Storage

__all__ = ["Group", "Limit", "Storage"]


class _Callable(ModuleType):
    """Lets ``spillcast.storage`` be both the room and its verb."""

    def __call__(self, word: str) -> Storage:
        """The storage of a storage.json, a recording, or ``catalogue:NAME``.

        InputError for anything else. Directories are probed by ``spillcast probe`` and forecasts.
        """
        from spillcast.storage.target import resolve_storage

        return resolve_storage(str(word))


sys.modules[__name__].__class__ = _Callable
