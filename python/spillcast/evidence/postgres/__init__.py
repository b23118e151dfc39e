"""PostgreSQL's own counts as evidence: plans of EXPLAIN and rows of pg_stat_statements."""

#: The comment at the end of spillcast's own statements, which are no evidence.
MARK = "/* spillcast */"

#: A block of PostgreSQL's temp files.
BLOCK_BYTES = 8192
