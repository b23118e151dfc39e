"""CSV files of I/O: a heading, then a row for each read or write, in the order of time."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from spillcast import _core
from spillcast.cache.rows import Integers, Rows, coded
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    OptionInvalid,
    PathMissing,
)
from spillcast.gate import COUNT_MAX, reading

_NEEDED = ("object", "offset", "bytes")
#: Other names of columns, in small letters.
_NAMES = {
    **dict.fromkeys(("file", "filename", "device", "object_id"), "object"),
    **dict.fromkeys(("offset_bytes", "position"), "offset"),
    **dict.fromkeys(("size", "size_bytes", "length"), "bytes"),
}
_HINT = "columns: object, offset, bytes; and if you have them: time_s, class, query"


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV."""
    return path.suffix.lower() == ".csv"


def read_csv(paths: Sequence[Path]) -> Rows:
    """Read files one after the other. InputError names the column or the value that is wrong."""
    for path in paths:
        if not is_csv(path):
            raise EvidenceMixed(
                f"{path} is not a CSV file, but others are", "give one kind at a time"
            )
    tables = [_read(path) for path in paths]
    table = pa.concat_tables(tables)
    if table.num_rows == 0:
        raise EvidenceIncomplete(f"{paths[0]}: holds no rows", _HINT)
    object_, objects = coded(table["object"].combine_chunks())
    query, _ = coded(table["query"].combine_chunks())
    classes = _core.CacheRequests.classes()
    names = table["class"].to_pylist()
    unknown = set(names) - set(classes)
    if unknown:
        problem = f"{paths[0]}: there is no class {min(map(str, unknown))!r}"
        raise OptionInvalid(problem, f"the classes are {', '.join(classes)}")
    return Rows(
        np.floor(table["time_s"].to_numpy()).astype(np.int64),
        object_,
        _whole(table, "offset"),
        _whole(table, "bytes"),
        object_,
        query,
        np.array([classes.index(name) for name in names], dtype=np.int64),
        objects,
    )


def _read(path: Path) -> pa.Table:
    types = {"object": pa.string(), "class": pa.string(), "query": pa.string()}
    types |= {"offset": pa.int64(), "bytes": pa.int64(), "time_s": pa.float64()}
    if not path.exists():
        raise PathMissing(f"{path}: there is no such file")
    with reading(path, _HINT):
        with path.open("rb") as file:
            heading = file.readline().decode(errors="replace")
        delimiter = max(",;\t|", key=heading.count)
        names = _names(heading, delimiter)
        of_column = {name: types[known] for name, known in names.items() if known in types}
        options = pa.csv.ConvertOptions(column_types=of_column, null_values=[""])
        parsing = pa.csv.ParseOptions(delimiter=delimiter)
        table = pa.csv.read_csv(path, convert_options=options, parse_options=parsing)
        table = table.rename_columns([names.get(name, name) for name in table.column_names])
        table.validate(full=True)
    if twice := [name for name in types if table.column_names.count(name) > 1]:
        raise EvidenceDamaged(f"{path}: there are several columns {twice[0]}", _HINT)
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise EvidenceIncomplete(
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
    table = table.select([*_NEEDED, "time_s", "class", "query"])
    for name in table.column_names:
        _check(path, name, table[name])
    return table


def _names(heading: str, delimiter: str) -> dict[str, str]:
    """The columns of a heading: the written name and ours.

    An alias counts only if no column has the name itself.
    """
    written = next(csv.reader([heading.strip("\ufeff \r\n")], delimiter=delimiter), [])
    exact = {name: name.strip().lower() for name in written}
    present = set(exact.values())
    return {
        name: known if (known := _NAMES.get(lower, lower)) not in present else lower
        for name, lower in exact.items()
    }


def _check(path: Path, name: str, column: pa.ChunkedArray) -> None:
    """InputError for empty fields and for impossible numbers."""
    if column.null_count:
        raise EvidenceDamaged(f"{path}: {name} is empty in some row", _HINT)
    if pa.types.is_string(column.type) or not len(column):
        return
    least, most = pa.compute.min_max(column).as_py().values()
    if not (least >= 0 and most <= COUNT_MAX):
        wrong = least if least < 0 else most
        raise EvidenceDamaged(f"{path}: {name} is {wrong:,} in some row", _HINT)


def _whole(table: pa.Table, name: str) -> Integers:
    return np.asarray(table[name].combine_chunks().to_numpy(), dtype=np.int64)
