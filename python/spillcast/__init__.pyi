"""Forecast how long a spilling query would take with its temp files on other storage.

The public interface for type checkers: at run time most of these calls are packages, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from spillcast.cache.simulation import Curve
from spillcast.forecast.result import Forecast
from spillcast.forecast.verdict import Forecasts
from spillcast.interactive import load_ipython_extension as load_ipython_extension
from spillcast.interactive import record as record
from spillcast.profile.result import Profile
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

__version__: str

class _Options(TypedDict, total=False):
    elapsed_s: float | None
    temp_events: str | None
    sql_id: str | None
    exec_id: int | None
    item: int | None
    since: str | None
    until: str | None
    block: str | None
    method: str
    queryid: str | None
    origin: str | None
    execution: int | None
    job: int | None
    page_cache_bytes: int | None
    executors: int | None
    cores: int | None
    memory_bytes: int | None
    temp_dirs: str | Path | Sequence[str | Path]
    lenient: bool
    exact: bool
    cpus: int | None
    cpu_quota: float | None
    confidence: float
    budget: str

# A text is also a sequence of texts.
@overload
def forecast(  # type: ignore[overload-overlap]
    baseline: Recording | str | Path | Sequence[str | Path],
    to: Storage | str | Path,
    **options: Unpack[_Options],
) -> Forecast: ...
@overload
def forecast(
    baseline: Recording | str | Path | Sequence[str | Path],
    to: Sequence[Storage | str | Path],
    **options: Unpack[_Options],
) -> Forecasts: ...
def profile(
    *evidence: str | Path,
    by: Sequence[str] = ("event",),
    event: str | None = None,
    where: str | None = None,
    temp_dirs: str | Path | Sequence[str | Path] = (),
    lenient: bool = False,
    block_bytes: int | None = None,
) -> Profile: ...
def storage(word: str | Path) -> Storage: ...
def cache(
    *evidence: str | Path,
    runs: int = 2,
    rate: float | None = None,
    error_points: float | None = None,
    temp_writes: bool = False,
) -> Curve: ...
def __getattr__(name: str) -> Any: ...
