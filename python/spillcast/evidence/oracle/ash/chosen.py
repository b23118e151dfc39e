"""Which samples of ASH are meant: of a statement, of an execution, of a time."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from spillcast.errors import EvidenceMixed, OptionInvalid, SelectionEmpty
from spillcast.evidence.oracle.ash import values

_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is asked of an export; None leaves all.

    ``since`` and ``until`` are times as the export has them, both included, or times of its day.
    """

    sql_id: str | None = None
    exec_id: int | None = None
    since: str | None = None
    until: str | None = None

    def of(self, samples: pa.Table, *, month_first: bool = False) -> pa.Table:
        """These rows, of which there is one; InputError names what there is.

        ``time_ns`` counts from 1970 here. With ``month_first`` 10/04/2024 is in October.
        """
        for name, wanted in (("sql_id", self.sql_id), ("sql_exec_id", self.exec_id)):
            if wanted is not None:
                samples = _with(samples, name, str(wanted))
        if self.since is None and self.until is None:
            return samples
        first_ns, last_ns = _ends_ns(samples)
        low_ns, high_ns = first_ns, last_ns
        if self.since is not None:
            low_ns = _time_ns("since", self.since, samples, month_first=month_first)
        if self.until is not None:
            high_ns = _time_ns("until", self.until, samples, month_first=month_first)
        times = samples["time_ns"]
        inside = pc.and_(pc.greater_equal(times, low_ns), pc.less_equal(times, high_ns))
        kept = samples.filter(inside)
        if kept.num_rows == 0:
            raise SelectionEmpty(
                f"no sample lies between {clock(low_ns)} and {clock(high_ns)}",
                f"the samples are of {clock(first_ns)} to {clock(last_ns)}",
            )
        return kept


#: All of an export.
ALL = Chosen()


def clock(time_ns: int) -> str:
    """A time as people read and write it, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def _with(samples: pa.Table, name: str, wanted: str) -> pa.Table:
    column = samples[name].cast(pa.string())
    chosen = samples.filter(pc.fill_null(pc.equal(column, wanted), False))
    if chosen.num_rows == 0:
        counts = pc.value_counts(column.drop_null()).to_pylist()
        counts.sort(key=lambda entry: (-entry["counts"], entry["values"]))
        top_values = ", ".join(entry["values"] for entry in counts[:5]) or "none"
        raise SelectionEmpty(f"no sample has {name.upper()} {wanted}", f"there are: {top_values}")
    return chosen


def _ends_ns(samples: pa.Table) -> tuple[int, int]:
    ends = pc.min_max(samples["time_ns"]).as_py()
    return ends["min"], ends["max"]


def _time_ns(option: str, text: str, samples: pa.Table, *, month_first: bool) -> int:
    """A time, or a time of the day that the samples are of."""
    first_ns, last_ns = _ends_ns(samples)
    day_ns = first_ns // _DAY_NS * _DAY_NS
    if (time_ns := values.parse_time_ns(text, month_first=month_first)) is not None:
        return time_ns
    time_ns = values.parse_time_ns(f"1970-01-01 {text}")
    if time_ns is None:
        raise OptionInvalid(
            f"--{option} '{text}' is not a time", f"write for example {clock(first_ns)}"
        )
    if last_ns // _DAY_NS * _DAY_NS != day_ns:
        raise EvidenceMixed(
            f"--{option} {text}: the samples are of several days",
            f"write the day too, as in '{clock(first_ns)}'",
        )
    return day_ns + time_ns
