"""Storage: how long its operations take, and where that is known from."""

from spillcast.storage.limit import Limit
from spillcast.storage.storage import Group, Storage

__all__ = ["Group", "Limit", "Storage"]
