"""Storages: the latencies of their operations, and the source of these figures."""

from pathlib import Path

from spillcast.public import as_package
from spillcast.storage.storage import Group, Limit, Storage

__all__ = ["Group", "Limit", "Storage"]


@as_package(__name__)
def _storage(word: str | Path) -> Storage:
    """The storage of a storage.json, a recording, or ``catalogue:NAME``.

    InputError for anything else. Directories are probed by ``spillcast probe`` and forecasts.
    """
    from spillcast.storage.target import resolve_storage

    return resolve_storage(str(word))
