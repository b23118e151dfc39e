"""Which statements of a PostgreSQL server spill: looks at it, its logs, what cures would bring."""
