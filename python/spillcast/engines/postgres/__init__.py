"""PostgreSQL: servers that run already, watched and changed, and servers of our own."""
