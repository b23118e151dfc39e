"""CSV files of I/O: a heading, then a row for each read or write, in the order of time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from spillcast import _core
from spillcast.cache.rows import Integers, Rows, coded
from spillcast.errors import InputError, first_line

_NEEDED = ("object", "offset", "bytes")
_HINT = "columns: object, offset, bytes; and if you have them: time_s, class, query"


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV."""
    return path.suffix.lower() == ".csv"


def read_csv(paths: Sequence[Path]) -> Rows:
    """Read files one after the other. InputError names the column or the value that is wrong."""
    for path in paths:
        if not is_csv(path):
            raise InputError(f"{path}: is no CSV file, and others are", "give one kind at a time")
    tables = [_read(path) for path in paths]
    table = pa.concat_tables(tables)
    if table.num_rows == 0:
        raise InputError(f"{paths[0]}: holds no rows", _HINT)
    object_, objects = coded(table["object"].combine_chunks())
    query, _ = coded(table["query"].combine_chunks())
    classes = _core.CacheRequests.classes()
    names = table["class"].to_pylist()
    unknown = set(names) - set(classes)
    if unknown:
        what = f"{paths[0]}: there is no class {min(map(str, unknown))!r}"
        raise InputError(what, f"the classes are {', '.join(classes)}")
    return Rows(
        np.floor(table["time_s"].to_numpy()).astype(np.int64),
        object_,
        _whole(table, "offset", paths[0]),
        _whole(table, "bytes", paths[0]),
        object_,
        query,
        np.array([classes.index(name) for name in names], dtype=np.int64),
        objects,
    )


def _read(path: Path) -> pa.Table:
    types = {"object": pa.string(), "class": pa.string(), "query": pa.string()}
    types |= {"offset": pa.int64(), "bytes": pa.int64(), "time_s": pa.float64()}
    try:
        table = pa.csv.read_csv(
            path, convert_options=pa.csv.ConvertOptions(column_types=types, null_values=[""])
        )
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: {first_line(error)}", _HINT) from error
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise InputError(
            f"{path}: there is no column {' and no '.join(missing)}, "
            "so what is read again is not known",
            _HINT,
        )
    count = table.num_rows
    defaults = {"time_s": pa.array(np.zeros(count)), "class": pa.array(["read"] * count)}
    defaults["query"] = pa.array([""] * count)
    for name, column in defaults.items():
        if name not in table.column_names:
            table = table.append_column(name, column)
    return table.select([*_NEEDED, "time_s", "class", "query"])


def _whole(table: pa.Table, name: str, path: Path) -> Integers:
    """A column of numbers that are not negative."""
    column = table[name].combine_chunks()
    if column.null_count or pa.compute.min(column).as_py() < 0:
        raise InputError(f"{path}: {name} is empty or negative in some row", _HINT)
    return np.asarray(column.to_numpy(), dtype=np.int64)
