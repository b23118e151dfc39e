"""Forecast how long a spilling query would take with its temp files on other storage."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.interactive import load_ipython_extension as load_ipython_extension
    from spillcast.interactive import record as record
    from spillcast.recording import Recording as Recording
    from spillcast.storage import Storage as Storage

__all__ = [
    "Recording",
    "Storage",
    "__version__",
    "cache",
    "forecast",
    "profile",
    "record",
    "storage",
]

_HOMES = {
    "__version__": "spillcast._core",
    "Recording": "spillcast.recording",
    "load_ipython_extension": "spillcast.interactive",
    "record": "spillcast.interactive",
    "Storage": "spillcast.storage",
}


def __dir__() -> list[str]:
    """The public names, for completion, also before their import."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because the command must start fast."""
    from importlib import import_module

    # Packages that can be called; docs/python.md shows them.
    if name in ("cache", "forecast", "profile", "storage"):
        return import_module(f"spillcast.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'spillcast' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
