"""Damages small real files: bytes, text, JSON, CSV and Parquet, reproducibly for a seed."""

import gzip
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq

#: Replacements for a number in text, and in JSON.
WORDS = (
    *("NaN", "nan", "Infinity", "-inf", "1e400", "-1", "0", "-0.0", "9223372036854775807"),
    *("-9223372036854775808", "9223372036854775808", "18446744073709551616", "1e18", "1e308"),
    *("0.5", "1e-320", "", " ", "null", "0x7f", "1_000", "1,000", "٣", "true", "9" * 400),
)
VALUES = (
    *(None, True, False, -1, 0, 1, 0.5, -0.0, 1e18, 1e308, -1e308, 1e-320, 1 << 31, 1 << 53),
    *((1 << 63) - 1, 1 << 63, -(1 << 63), 10**30, 10**400, float("nan"), float("inf"), -1e18),
    *("", "x", "NaN", "1", "\ud800", "\x00", "\x1b[31m", "x" * 70_000, "../../x", "/", "'", "\n"),
    *([], {}, [1], [[]], [None], [-1], ["x"], {"x": 1}, [1, 2], [2, 1], [0.0, 0.0], [1e308, 1e308]),
)
SEPARATORS = b",;|\t\"'{}[]:=\n\r\0 "
_NUMBER = re.compile(rb"-?\d[\d.]*")


def mutated(name, content, draw):
    """The content of a file called ``name``, with one or several kinds of damage."""
    suffix = name.rpartition(".")[2].lower()
    if suffix in {"gz", "zst"} and draw.random() < 0.6:
        return _repacked(suffix, content, draw)
    ways = [_flip, _cut_out, _repeat, _shorten, _insert, _overwrite, _number, _number]
    if suffix == "json" and draw.random() < 0.8:
        ways = [_of_json]
    elif suffix == "parquet" and draw.random() < 0.75:
        ways = [_of_parquet]
    elif suffix in {"csv", "txt"} and draw.random() < 0.6:
        ways = [_cell, _cell, _column, _lines]
    elif suffix in {"trc", "plan", "log"} and draw.random() < 0.6:
        ways = [_number, _number, _lines, _word]
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        content = draw.choice(ways)(content, draw)
    return content


def _span(content, draw):
    """A range of bytes; long ranges are as likely as short ones."""
    start = draw.randrange(len(content) + 1)
    return start, start + draw.randrange(1 + min(len(content) - start, 1 << draw.randrange(14)))


def _flip(content, draw):
    result = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if result:
            result[draw.randrange(len(result))] ^= 1 << draw.randrange(8)
    return bytes(result)


def _overwrite(content, draw):
    start, end = _span(content, draw)
    byte = draw.choice((b"\0", b"\xff", b"\x7f", None))
    new = draw.randbytes(end - start) if byte is None else byte * (end - start)
    return content[:start] + new + content[end:]


def _cut_out(content, draw):
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def _repeat(content, draw):
    start, end = _span(content, draw)
    return content[:end] + content[start:end] * draw.choice((1, 1, 2, 50)) + content[end:]


def _shorten(content, draw):
    return content[: draw.choice((0, 1, draw.randrange(len(content) + 1)))]


def _insert(content, draw):
    at = draw.randrange(len(content) + 1)
    new = draw.choice((*(word.encode() for word in WORDS), *(bytes([b]) for b in SEPARATORS)))
    new = draw.choice((new, new, b"\xff\xfe", b"\xef\xbb\xbf", "\ud800".encode(errors="replace")))
    return content[:at] + new + content[at:]


def _number(content, draw):
    """Replaces a number in a text by another word."""
    result = list(_NUMBER.finditer(content[: 1 << 20]))
    if not result:
        return _flip(content, draw)
    match = draw.choice(result)
    return content[: match.start()] + draw.choice(WORDS).encode() + content[match.end() :]


def _word(content, draw):
    """Replaces a word by another word of the same text."""
    result = list(re.finditer(rb"[A-Za-z_#]+", content[: 1 << 20]))
    if not result:
        return _flip(content, draw)
    match, other = draw.choice(result), draw.choice(result)
    return content[: match.start()] + other[0] + content[match.end() :]


def _lines(content, draw):
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    way = draw.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(other, lines[at])
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)] + b"\n"
    return b"".join(lines)


def _cell(content, draw):
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    separator = max((b",", b";", b"|", b"\t"), key=content.count)
    cells = lines[at].split(separator)
    cells[draw.randrange(len(cells))] = draw.choice(WORDS).encode()
    lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _column(content, draw):
    """Removes, repeats or fills a column."""
    separator = max((b",", b";", b"|", b"\t"), key=content.count)
    rows = [line.split(separator) for line in content.split(b"\n")]
    at, way, word = draw.randrange(len(rows[0])), draw.randrange(3), draw.choice(WORDS).encode()
    for number, row in enumerate(rows):
        if len(row) <= at:
            continue
        if way == 0:
            del row[at]
        elif way == 1:
            row.insert(at, row[at])
        elif number:
            row[at] = word
    return b"\n".join(separator.join(row) for row in rows)


def _of_json(content, draw):
    """Changes a value, a key or a list of a document; sometimes to deep nesting."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, draw)
    places = list(_places(document))
    if not places:
        return _flip(content, draw)
    holder, key = draw.choice(places)
    way = draw.randrange(10)
    if way < 5:
        holder[key] = draw.choice(VALUES)
    elif way == 5:
        del holder[key]
    elif way == 6:
        other, name = draw.choice(places)
        holder[key] = json.loads(json.dumps(other[name])) if name in _keys(other) else None
    elif way == 7 and isinstance(holder[key], int | float) and abs(holder[key]) < 1e100:
        holder[key] = holder[key] * draw.choice((-1, 0.1, 10, 1000, 1e12))
    elif way == 8:
        deep = draw.choice((200, 2_000, 100_000))
        holder[key] = "DEEP"
        left, right = draw.choice((("[", "]"), ('{"Plans": [', "]}"), ('{"x":', "}")))
        inner = left * deep + ("1" if left == '{"x":' else "") + right * deep
        return json.dumps(document).replace('"DEEP"', inner).encode()
    elif isinstance(holder[key], list) and holder[key]:
        holder[key] = holder[key] * draw.choice((0, 2, 100))
    else:
        holder[key] = [holder[key]]
    return json.dumps(document).encode()


def _keys(holder):
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(value):
    """Every container and key of a document."""
    if isinstance(value, dict | list):
        for key in _keys(value):
            yield value, key
            yield from _places(value[key])


_TYPES = (
    *(pa.string(), pa.float64(), pa.bool_(), pa.int8(), pa.uint64(), pa.binary(), pa.null()),
    *(pa.list_(pa.int64()), pa.decimal128(38, 2), pa.timestamp("ns"), pa.timestamp("s", "UTC")),
    *(pa.struct([("x", pa.int64())]), pa.dictionary(pa.int32(), pa.string()), pa.date32()),
)


def _of_parquet(content, draw):
    """Changes columns, types, values or rows, or bytes where Arrow cannot hold such a table."""
    try:
        table = _changed(pq.ParquetFile(io.BytesIO(content)).read(), draw)
        out = io.BytesIO()
        pq.write_table(table, out, compression=draw.choice(("snappy", "zstd", "none", "gzip")))
    except (pa.ArrowException, OSError, TypeError, ValueError):
        return _flip(content, draw)
    return out.getvalue()


def _changed(table, draw):
    at = draw.randrange(table.num_columns)
    field, rows = table.schema.field(at), table.num_rows
    way = draw.randrange(10)
    if way < 4:
        table = table.set_column(at, field.name, _values(table[at], field.type, draw))
    elif way == 4:
        kind = draw.choice(_TYPES)
        table = table.set_column(at, field.name, _cast(table[at], kind))
    elif way == 5:
        table = table.remove_column(at)
    elif way == 6:
        other = draw.choice((table.column_names[draw.randrange(table.num_columns)], "x", ""))
        table = table.rename_columns(
            [*table.column_names[:at], other, *table.column_names[at + 1 :]]
        )
    elif way == 7:
        table = table.slice(draw.randrange(rows + 1), draw.randrange(rows + 1))
    elif way == 8:
        table = pa.concat_tables([table] * draw.choice((2, 3)))
    else:
        order = list(range(rows))
        draw.shuffle(order)
        table = table.take(order[: draw.choice((rows, rows // 2, 0))])
    return table


def _values(column, kind, draw):
    values = column.to_pylist()
    for _ in range(draw.choice((1, 3, len(values)))):
        if values:
            values[draw.randrange(len(values))] = draw.choice(VALUES)
    if draw.random() < 0.2:
        values = [draw.choice(VALUES)] * len(values)
    return pa.array([_fitting(value, kind) for value in values], kind)


def _fitting(value, kind):
    """The value if the type can hold it, else another that it can."""
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return value


def _cast(column, kind):
    try:
        return column.cast(kind)
    except (pa.ArrowException, TypeError):
        return pa.nulls(len(column), kind)


def _repacked(suffix, content, draw):
    """The content of a compressed file, damaged and compressed again."""
    if suffix == "gz":
        inner = gzip.decompress(content)
        return gzip.compress(mutated("inner.trc", inner, draw), mtime=0)
    with pa.input_stream(pa.py_buffer(content), compression="zstd") as stream:
        inner = stream.read()
    return zstd(mutated("inner.trc", inner, draw))


def zstd(content):
    """A zstd file."""
    out = pa.BufferOutputStream()
    with pa.output_stream(out, compression="zstd") as stream:
        stream.write(content)
    return out.getvalue().to_pybytes()
