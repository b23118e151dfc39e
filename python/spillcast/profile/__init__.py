"""Where the time goes: waits and CPU counted by what they have in common, with latencies."""

import sys
from types import ModuleType
from typing import Any

from spillcast.profile.profile import profile as profile
from spillcast.profile.result import DIMENSIONS as DIMENSIONS
from spillcast.profile.result import Profile as Profile

__all__ = ["DIMENSIONS", "Profile", "profile"]


class _Callable(ModuleType):
    """Makes ``spillcast.profile`` both a package and a function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """As ``spillcast.profile.profile``."""
        return profile(*args, **options)


sys.modules[__name__].__class__ = _Callable
