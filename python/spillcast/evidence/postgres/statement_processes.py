"""How many processes may have shared a statement's I/O, by what pg_stat_statements tells."""

import re

from spillcast.evidence.counts import Bounds
from spillcast.evidence.postgres.statement_rows import MAINTENANCE, PER_GATHER, Row
from spillcast.units import format_count

#: Workers of a query, or of making an index, where nobody has set another number.
DEFAULT_WORKERS = 2
#: A statement seen so often without a worker has one for less than a seventh of its time, 95 %
#: sure.
LOOKS_MIN = 20
#: Statements whose processes are those of a plan: others may make indexes, too.
_QUERY = re.compile(
    r"(?:\s|/\*(?:(?!\*/).)*\*/|--[^\n]*\n|\()*(?:select|with|insert|update|delete|merge)\b",
    re.IGNORECASE | re.DOTALL,
)
#: A table is read, and not a function alone: of queries within that the counts are added to those
#: of the statement that calls it, and their workers are not.
_OF_TABLES = re.compile(r"\bfrom\s+(?:only\s+)?[\w\".]+(?![\w\".]|\s*\()", re.IGNORECASE)


def processes_of(row: Row) -> Bounds[float]:
    """From one process to all that its server's settings allow for."""
    query = row.query or ""
    is_query = _QUERY.match(query) is not None
    if row.workers == 0 and is_query and _OF_TABLES.search(query):
        return Bounds(1.0, 1.0, "its calls launched no parallel workers")
    if row.workers is None and row.looks >= LOOKS_MIN:
        seen = "no parallel worker"
        if row.workers_seen:
            seen = f"at most {format_count(row.workers_seen, 'parallel worker')}"
        because = f"{row.looks:,} looks at its sessions saw {seen}"
        return Bounds(1.0, 1.0 + row.workers_seen, because)
    settings = {PER_GATHER: row.per_gather, MAINTENANCE: row.maintenance}
    if is_query:
        del settings[MAINTENANCE]
    workers = {
        name: DEFAULT_WORKERS if value is None else value for name, value in settings.items()
    }
    name = max(workers, key=workers.__getitem__)
    most, because = workers[name], f"{name} is {workers[name]}, as exported"
    if settings[name] is None:
        because = f"{name} is not in the file and assumed to be {most}, PostgreSQL's default"
    launched = -(-(row.workers or 0) // row.calls)
    if launched > most:
        most, because = launched, f"a call launched about {format_count(launched, 'worker')}"
    return Bounds(1.0, 1.0 + most, because)
