"""ClickHouse: a ranking of a server or of its query log, experiments on chdb."""
