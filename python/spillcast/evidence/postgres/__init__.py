"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.evidence.postgres.plan import counts_of_plan as counts_of_plan
    from spillcast.evidence.postgres.plan import plan_counts as plan_counts
    from spillcast.evidence.postgres.plan import read_plan as read_plan
    from spillcast.evidence.postgres.statements import read_statements as read_statements

#: The comment at the end of spillcast's own statements, which are no evidence.
MARK = "/* spillcast */"

__all__ = ["counts_of_plan", "plan_counts", "read_plan", "read_statements"]

_HOMES = {
    "read_plan": "plan",
    "read_statements": "statements",
    "counts_of_plan": "plan",
    "plan_counts": "plan",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: most forecasts are of a recording."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
