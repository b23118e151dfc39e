"""Columns of pg_stat_statements under the names, and in the units, that a query gives them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from types import MappingProxyType
from typing import Any

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.numbers import ZERO, FigureCheck, Number, amount, rounded_number, seconds_of
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.table_rows import CALLS, TEMP_BLOCKS
from spillcast.gate import unambiguous

NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
_TEMP = re.compile(TEMP_BLOCKS)
_CALLS = re.compile(CALLS)
#: Times of execution: their names up to version 12 and since, and common aliases.
_TIME = re.compile(
    r"(?P<of>total|mean|avg|average|stddev)_(?:exec_|execution_)?(?:time|(?=[mhs]))"
    r"(?:_?(?P<unit>ms|s|secs?|seconds|mins?|minutes|h|hours))?"
)
#: Milliseconds in a unit of time, and blocks in a unit of size, by its first letter or whole name.
_MS = {"ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
_BLOCKS = {"b": 1.0} | {
    unit: 1024.0**power / BLOCK_BYTES for power, unit in enumerate(("bytes", "k", "m", "g", "t"))
}
#: Names of the statement's text, and how such a text begins.
_TEXT_NAME = re.compile(r"query|sql|statement|stmt|^(?:left|substr(?:ing)?|regexp_replace)$")
_TEXT = re.compile(r"\s*(?:--|/\*|[(<]|[^\W\d]\w*\s)")
_BETWEEN_WORDS = re.compile(r"_?[\s()-]+")
#: A query above its result, without one inside it, and how far from the beginning it ends. The
#: parenthesis before a part of another query belongs to the match, that of COPY does not.
_QUERY = re.compile(
    r"(?:(?<!copy)(?<!copy )\(\s*+)?\bselect\b(?:(?!\bselect\b).)*?\bfrom\s+(?:\w+\.)?pg_stat_\w+",
    re.IGNORECASE | re.DOTALL,
)
_QUERY_END = 1 << 16
#: A column that a query shows as it is, under another name; a prompt may precede its line.
_PROMPT = r"(?:[\w.]{1,63}[-(*'\"$][>#]\s*)?"
_SELECTED = re.compile(
    rf"(?:\bselect|,)\s+{_PROMPT}(?:\w+\.)?(temp_blks_(?:read|written))"
    rf"\s+(?:as\s+)?\"?(\w+)\"?\s*(?=,|{_PROMPT}\bfrom\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Alias:
    """A column of a query: the column of pg_stat_statements that it shows, and its unit."""

    column: str
    #: Milliseconds or blocks in the unit; None if each value has its own unit.
    factor: float | None
    per_call: bool = False

    @property
    def is_time(self) -> bool:
        """Whether it is a time, and no count."""
        return self.column.endswith("_time")

    @classmethod
    @lru_cache
    def of(cls, name: str) -> "Alias | None":
        """The meaning of a name in lower case; None for other names."""
        if _CALLS.fullmatch(name):
            return cls("calls", 1.0)
        if time := _TIME.fullmatch(name):
            of = "mean" if time["of"] in ("avg", "average") else time["of"]
            unit = time["unit"] or "ms"
            return cls(f"{of}_exec_time", _MS["ms" if unit == "ms" else unit[0]])
        if temp := _TEMP.fullmatch(name):
            # temp_blks_read (MB) is a size.
            unit = temp["last_unit"] or temp["unit"]
            op = "read" if temp["op"] == "read" else "written"
            is_mean = bool(temp["mean"] or temp["per_call"])
            factor = _BLOCKS.get(unit, _BLOCKS[unit[0]]) if unit else None
            return cls(f"temp_blks_{op}", factor, is_mean)
        return None


def selected_columns(text: str) -> dict[str, str]:
    """Columns by the names that the only query in a text gives them."""
    queries = _QUERY.findall(text[:_QUERY_END])
    is_whole = len(queries) == 1 and queries[0][0] != "("
    pairs = _SELECTED.findall(queries[0].lower()) if is_whole else ()
    return {name: column for column, name in pairs}


@lru_cache  # So rows share the texts of their names.
def _plain(name: str) -> str:
    """The name in lower case, with its words and unit joined: total_time_ms for Total time (ms)."""
    return _BETWEEN_WORDS.sub("_", name.strip().lower()).strip("_")


def renamed(row: Mapping[str, Any], columns: Mapping[str, str] = NO_COLUMNS) -> dict[str, Any]:
    """A row with the newest version's column names too; up to 12 all times are of execution.

    ``columns`` are those that the export has under other names.
    """
    row = unambiguous([(_plain(str(name)), value) for name, value in row.items()])
    row = {columns.get(name, name): value for name, value in row.items()}
    texts = [v for name, v in row.items() if _TEXT_NAME.search(name) and _TEXT.match(str(v))]
    aliases = [(alias, name) for name in row if (alias := Alias.of(name)) is not None]
    # Of several forms of a column, a sum in the smallest unit is the most exact.
    aliases.sort(key=lambda pair: (pair[0].per_call, pair[0].factor or inf), reverse=True)
    named = {alias.column: row[name] for alias, name in aliases}
    named |= {"query": texts[0]} if texts else {}
    named |= {"queryid": row["query_id"]} if "query_id" in row else {}
    plain = {
        name.removesuffix("_ms") if name.endswith("_time_ms") else name: value
        for name, value in row.items()
    }
    return {**named, **plain}


def in_standard_units(row: Mapping[str, Any]) -> dict[str, Any]:
    """A renamed row with times in milliseconds, temp I/O in blocks, and sums over the calls.

    A converted value is a Number with the bounds of its rounding. ValueError if it is no number.
    """
    converted = {}
    for name, value in row.items():
        alias = Alias.of(name)
        # The column itself is more exact than another form of it.
        if alias is None or value is None or row[alias.column] != value:
            continue
        is_clock = alias.is_time and ":" in str(value)
        if is_clock or alias.factor != 1.0 or alias.per_call:
            calls = amount(row["calls"], "calls") if alias.per_call else 1
            number = _quantity(alias, name, str(value).strip()) * calls
            if not alias.is_time:
                number = replace(number, value=round(number.value))
            converted[alias.column] = number
    return {**row, **converted}


def _quantity(alias: Alias, name: str, text: str) -> Number:
    """Milliseconds or blocks, by the unit of the value, or else that of the column."""
    if alias.is_time:
        number, factor = seconds_of(re.sub(r" days? ", " ", text)), 1e3
        has_unit = ":" in text or text.endswith("s")
    else:
        size = re.sub(r"\bkB\b", "KB", text.replace(" bytes", "B"))
        number, factor = rounded_number(size), 1.0 / BLOCK_BYTES
        has_unit = size.endswith("B")
    if number is None or not (has_unit or text[-1].isdigit()):
        raise ValueError(f"{name} is {text[:40]}, and not a number")
    if has_unit:
        return number * factor
    if alias.factor is None:
        hint = f"rename the column to {alias.column} if it counts blocks"
        raise EvidenceIncomplete(f"{name} has no unit: it may count blocks or bytes", hint)
    return number * alias.factor


def with_total(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the total time of its calls, even if only their mean was exported."""
    mean_ms, calls = row.get("mean_exec_time"), row.get("calls")
    if "total_exec_time" in row or mean_ms is None or calls is None:
        return row
    mean_ms = mean_ms if isinstance(mean_ms, Number) else amount(mean_ms, "mean_exec_time")
    return {**row, "total_exec_time": mean_ms * amount(calls, "calls")}


def total_checks(row: Mapping[str, Any]) -> Iterator[FigureCheck]:
    """Checks that the mean time times the calls is the total, if all three are exported."""
    total, mean, calls = (row.get(name) for name in ("total_exec_time", "mean_exec_time", "calls"))
    if None in (total, mean, calls) or not amount(mean, "mean_exec_time"):
        return
    mean_ms, total_ms = (
        time if isinstance(time, Number) else rounded_number(str(time)) or ZERO
        for time in (mean, total)
    )
    calls_words = f"{calls} calls of {mean_ms.value:.10g} ms"
    total_words = f"a total of {total_ms.value:.10g} ms"
    product = mean_ms * amount(calls, "calls")
    yield FigureCheck("count-mean-total", product, calls_words, total_ms, total_words)
