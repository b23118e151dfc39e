"""Sums of a recording's rows; who wrote it knows them, so that nobody need read them again."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class WrittenBytes(NamedTuple):
    """Bytes written to temp files, and to others."""

    temp: int
    other: int


class FileSums(NamedTuple):
    """Reads and writes of a file; the times are starts, None where there were none."""

    written_bytes: int
    first_write_ns: int | None
    read_bytes: int
    last_read_ns: int | None


def written_bytes(seconds: "pa.Table") -> WrittenBytes:
    """What was written, of per-second rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    writes = seconds.filter(pc.equal(seconds["op"].cast(pa.string()), "write"))
    sums = writes.group_by("temp").aggregate([("bytes", "sum")]).to_pylist()
    written = {row["temp"]: row["bytes_sum"] for row in sums}
    return WrittenBytes(written.get(True, 0), written.get(False, 0))


def other_files(waits: "pa.Table") -> dict[str, FileSums]:
    """Files that count as no temp files, by name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    others = waits.filter(pc.and_(waits["file"].is_valid(), pc.invert(waits["temp"])))
    groups = others.set_column(
        others.schema.get_field_index("op"), "op", others["op"].cast(pa.string())
    ).group_by(["file", "op"], use_threads=False)
    found: dict[str, FileSums] = {}
    for row in groups.aggregate(
        [("bytes", "sum"), ("start_ns", "min"), ("start_ns", "max")]
    ).to_pylist():
        sums, size = found.get(row["file"], FileSums(0, None, 0, None)), row["bytes_sum"] or 0
        if row["op"] == "write":
            sums = sums._replace(written_bytes=size, first_write_ns=row["start_ns_min"])
        elif row["op"] == "read":
            sums = sums._replace(read_bytes=size, last_read_ns=row["start_ns_max"])
        found[row["file"]] = sums
    return found
