"""How long a run would take if its temp I/O stood on another storage."""

import sys
from types import ModuleType
from typing import Any

from spillcast.forecast.estimate import forecast
from spillcast.forecast.result import Forecast, Term, Warned

__all__ = ["Forecast", "Term", "Warned", "forecast"]


class _Callable(ModuleType):
    """Lets ``spillcast.forecast`` be both the room and its verb."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return forecast(*args, **options)


sys.modules[__name__].__class__ = _Callable
