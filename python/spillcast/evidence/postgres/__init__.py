"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.evidence.postgres.afar import with_counts as with_counts
    from spillcast.evidence.postgres.plan import read_plan as read_plan
    from spillcast.evidence.postgres.plan import recording_of_plan as recording_of_plan
    from spillcast.evidence.postgres.statements import read_statements as read_statements

#: The comment at the end of spillcast's own statements, which are no evidence.
MARK = "/* spillcast */"

__all__ = ["read_plan", "read_statements", "recording_of_plan", "with_counts"]

_HOMES = {
    "read_plan": "plan",
    "read_statements": "statements",
    "recording_of_plan": "plan",
    "with_counts": "afar",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: most forecasts are of a recording."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
