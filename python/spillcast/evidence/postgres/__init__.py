"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

import re

#: The comment at the end of spillcast's own statements, which are not evidence.
MARK = "/* spillcast */"

#: A block of PostgreSQL's temp files.
BLOCK_BYTES = 8192

#: Counts of a node in a plan with BUFFERS.
TEMP_BLOCKS = ("Temp Read Blocks", "Temp Written Blocks")

#: Constants of a statement, which pg_stat_statements shows as $1, $2 and so on.
CONSTANT = re.compile(r"'(?:[^']|'')*'|\$\d+|\b\d+(?:\.\d+)?\b")
COMMENTS = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
