//! Temp files by their names alone, as engines give them. The preload library compiles this file too.

/// DuckDB's `duckdb_temp_storage_*.tmp` and `duckdb_temp_block-*`, PostgreSQL's `pgsql_tmp`.
pub fn named_by_engine(path: &[u8]) -> bool {
    let mut parts = path.split(|&byte| byte == b'/');
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.starts_with(b"duckdb_temp_") || parts.any(|part| part == b"pgsql_tmp")
}

pub fn looks_like_database(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let kinds = [".db", ".duckdb", ".wal", ".sqlite", ".parquet", ".csv"];
    kinds.iter().any(|kind| name.len() > kind.len() && name.ends_with(kind.as_bytes()))
}

/// Whether `path` lies somewhere under `directory`, which has no slash at its end.
pub fn lies_under(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}
