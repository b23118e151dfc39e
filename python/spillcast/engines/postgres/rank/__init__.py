"""Ranks the statements of a PostgreSQL server that spill, by snapshots of counts and by logs."""
