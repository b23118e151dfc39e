"""DuckDB's habits: it compresses what it spills as far as writes are slow."""
