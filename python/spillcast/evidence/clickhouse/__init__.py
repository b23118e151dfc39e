"""Rows of ClickHouse's system.query_log: finished queries with the events that they counted."""
