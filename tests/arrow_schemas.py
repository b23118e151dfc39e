"""Schemas of files as pyarrow types."""

import pyarrow as pa

_TYPES = {
    "int64": pa.int64(), "bool": pa.bool_(), "float64": pa.float64(), "string": pa.string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()), "list of int64": pa.list_(pa.int64()),
}  # fmt: skip


def arrow_schema(fields):
    return pa.schema([pa.field(f.name, _TYPES[f.type], f.nullable) for f in fields])
