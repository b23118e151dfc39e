"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

import re
from collections.abc import Mapping
from typing import Any

#: The comment at the end of spillcast's own statements, which are not evidence.
MARK = "/* spillcast */"

#: A block of PostgreSQL's temp files.
BLOCK_BYTES = 8192

#: Counts of a node in a plan with BUFFERS.
TEMP_BLOCKS = ("Temp Read Blocks", "Temp Written Blocks")

#: Constants of a statement, which pg_stat_statements shows as $1, $2 and so on.
CONSTANT = re.compile(r"'(?:[^']|'')*'|\$\d+|\b\d+(?:\.\d+)?\b")
COMMENTS = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def cte_name(values: Mapping[str, Any]) -> str:
    """The name of a common table expression in a plan; empty for other nodes."""
    name = str(values.get("Subplan Name", ""))
    return name.removeprefix("CTE ") if name.startswith("CTE ") else ""
