"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

from spillcast.recording.explain.afar import with_counts
from spillcast.recording.explain.plan import read_plan, recording_of_plan
from spillcast.recording.explain.statements import read_statements

__all__ = ["read_plan", "read_statements", "recording_of_plan", "with_counts"]
