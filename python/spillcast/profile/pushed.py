"""What of a query on waits the reader of traces does: its conditions, and sums by columns."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from spillcast import _core

TABLE = "waits"
#: Columns of few different values, that sums are kept by; by others there would be one a wait.
_KEYS = frozenset(
    [
        "event",
        "op",
        "temp",
        "idle",
        "sql_id",
        "session",
        "file",
        "source",
        "object",
        "blocks",
        "bytes",
        "cursor",
        "p1",
        "p3",
    ]
)
_KEYS_MAX = 8
_NUMBERS = frozenset(
    [
        "start_ns",
        "elapsed_ns",
        "session",
        "source",
        "object",
        "blocks",
        "bytes",
        "cursor",
        "line",
        "p1",
        "p2",
        "p3",
    ]
)
#: Sums of sums, with ``{0}`` for the column.
_TOTALS = {
    "sum": 'cast(sum("{0} sum") as hugeint)',
    "count": 'cast(coalesce(sum("{0} count"), 0) as bigint)',
    "avg": 'cast(sum("{0} sum") as double) / sum("{0} count")',
    "min": 'min("{0} least")',
    "max": 'max("{0} most")',
}
#: To these it is the same how often a value comes.
_OF_VALUES = frozenset(("min", "max", "bool_or", "bool_and"))
#: Functions of a row's values alone.
_SCALARS = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "||",
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "lower",
        "upper",
        "length",
        "round",
        "floor",
        "ceil",
        "abs",
        "substr",
        "substring",
        "starts_with",
        "contains",
        "prefix",
        "suffix",
        "nullif",
        "if",
        "greatest",
        "least",
        "concat",
        "replace",
    ]
)
#: Kinds of expressions that hold others and nothing else.
_HOLDERS = frozenset(
    ("CONSTANT", "COMPARISON", "CONJUNCTION", "CAST", "CASE", "BETWEEN", "OPERATOR")
)
Tree = dict[str, Any]


@dataclass(frozen=True)
class Pushed:
    """``condition`` holds for each wait that the query needs; None where all may be.

    ``query`` has the same answer out of the table of ``_core.TraceReader.no_sums(keys, numbers)``;
    None where single waits are needed.
    """

    condition: str | None = None
    query: str | None = None
    keys: Sequence[str] = ()
    numbers: Sequence[str] = ()


class _SingleWaitsError(Exception):
    """Sums do not answer the query."""


def pushed(connection: duckdb.DuckDBPyConnection, query: str, columns: Collection[str]) -> Pushed:
    """What there is of a query that can be bound, and scans one table; ``columns`` are of waits."""
    tree = _parsed(connection, query)
    if tree["error"]:
        # Only what selects is told as a tree.
        return Pushed()
    node = tree["statements"][0]["node"]
    if not _is_of_waits(node):
        return Pushed()
    parts = _conjuncts(node["where_clause"])
    texts = [_text(connection, part, node) for part in parts]
    understood = [_core.TraceReader.understands(text) for text in texts]
    known = [text for text, is_known in zip(texts, understood, strict=True) if is_known]
    left = [part for part, is_known in zip(parts, understood, strict=True) if not is_known]
    condition = " and ".join(known) or None
    try:
        sums = _Sums(connection, node["from_table"]["alias"] or TABLE, columns)
        new = {**node, "where_clause": sums.conjunction(left)}
        for name in ("select_list", "group_expressions", "having", "modifiers"):
            new[name] = sums.rewritten(node[name])
    except _SingleWaitsError:
        return Pushed(condition)
    grouped = node["group_expressions"] or node["aggregate_handling"] == "FORCE_AGGREGATES"
    if not (grouped or sums.aggregates) or len(sums.keys) > _KEYS_MAX:
        return Pushed(condition)
    titles = connection.sql(query).columns
    for item, title in zip(new["select_list"], titles, strict=True):
        item["alias"] = title
    tree["statements"][0]["node"] = new
    return Pushed(condition, _sql(connection, tree), sorted(sums.keys), sorted(sums.numbers))


def _parsed(connection: duckdb.DuckDBPyConnection, query: str) -> Tree:
    [(text,)] = connection.execute("select json_serialize_sql(?)", [query]).fetchall()
    tree: Tree = json.loads(text)
    return tree


def _sql(connection: duckdb.DuckDBPyConnection, tree: Tree) -> str:
    text = json.dumps(tree)
    [(query,)] = connection.execute("select json_deserialize_sql(?::json)", [text]).fetchall()
    return str(query)


def _is_of_waits(node: Tree) -> bool:
    """Whether it selects from the table of waits, and from nothing else."""
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"]:
        return False
    table = node["from_table"]
    plain = table["type"] == "BASE_TABLE" and table["table_name"].lower() == TABLE
    more = ("sample", "schema_name", "catalog_name", "column_name_alias", "at_clause")
    return (
        plain and not any(table[name] for name in more) and not (node["sample"] or node["qualify"])
    )


def _conjuncts(where: Tree | None) -> list[Tree]:
    """Conditions all of which must hold."""
    if where is None:
        return []
    if where["type"] == "CONJUNCTION_AND":
        return [part for child in where["children"] for part in _conjuncts(child)]
    return [where]


def _text(connection: duckdb.DuckDBPyConnection, part: Tree, node: Tree) -> str:
    """A condition as SQL, its columns without the table's name."""
    empty = dict.fromkeys(("where_clause", "having"))
    lists: Tree = {"modifiers": [], "group_expressions": [], "group_sets": []}
    alone = {**node, **empty, **lists, "select_list": [_unqualified(part)]}
    alone["aggregate_handling"] = "STANDARD_HANDLING"
    alone["from_table"] = {"type": "EMPTY", "alias": "", "sample": None}
    tree = {"error": False, "statements": [{"node": alone, "named_param_map": []}]}
    return _sql(connection, tree).removeprefix("SELECT ")


def _unqualified(one: Any) -> Any:
    if isinstance(one, list):
        return [_unqualified(each) for each in one]
    if not isinstance(one, dict):
        return one
    if one.get("class") == "COLUMN_REF":
        return {**one, "column_names": one["column_names"][-1:]}
    return {name: _unqualified(value) for name, value in one.items()}


class _Sums:
    """Expressions over waits -> the same over sums of them; which sums these need."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: Collection[str]
    ) -> None:
        self.connection = connection
        self.table = table.lower()
        self.columns = columns
        self.keys = set[str]()
        self.numbers = set[str]()
        self.aggregates = 0

    def conjunction(self, parts: Sequence[Tree]) -> Tree | None:
        """Of conditions on keys alone."""
        if not parts:
            return None
        if len(parts) == 1:
            return self.rewritten(parts[0])  # type: ignore[no-any-return]
        children = self.rewritten(list(parts))
        return {
            "class": "CONJUNCTION",
            "type": "CONJUNCTION_AND",
            "alias": "",
            "query_location": 0,
            "children": children,
        }

    def rewritten(self, one: Any) -> Any:
        """Any part of the tree of a query."""
        if isinstance(one, list):
            return [self.rewritten(each) for each in one]
        if not isinstance(one, dict):
            return one
        kind = one.get("class")
        if kind == "FUNCTION":
            return self._function(one)
        if kind == "COLUMN_REF":
            name = self._column(one)
            if name in _KEYS:
                self.keys.add(name)
            elif name in self.columns:
                raise _SingleWaitsError
            return one
        # `order by all` orders by what is selected.
        if kind == "STAR" and one["columns"] and one["query_location"] >= 1 << 63:
            return one
        if kind is not None and kind not in _HOLDERS:
            raise _SingleWaitsError
        return {name: self.rewritten(value) for name, value in one.items()}

    def _column(self, reference: Tree) -> str:
        *table, name = (name.lower() for name in reference["column_names"])
        if table not in ([], [self.table]):
            raise _SingleWaitsError
        return str(name)

    def _function(self, call: Tree) -> Tree:
        name = call["function_name"].lower()
        if call["order_bys"]["orders"] or call["schema"] or call["catalog"]:
            raise _SingleWaitsError
        arguments = [argument["expression"] for argument in call["arguments"]]
        if name in _SCALARS:
            if call["filter"] is not None or call["distinct"]:
                raise _SingleWaitsError
            return {**call, "arguments": self.rewritten(call["arguments"])}
        self.aggregates += 1
        if name == "count_star":
            return self._total("count", "all", call)
        if name in _TOTALS and len(arguments) == 1 and not call["distinct"]:
            column = self._column(arguments[0]) if arguments[0]["class"] == "COLUMN_REF" else ""
            if column in _NUMBERS:
                self.numbers.add(column)
                return self._total(name, column, call)
        if name in _OF_VALUES or (name == "count" and call["distinct"]):
            changed = {key: self.rewritten(call[key]) for key in ("arguments", "filter")}
            return call | changed
        raise _SingleWaitsError

    def _total(self, name: str, column: str, call: Tree) -> Tree:
        """The sum of a column's sums, under the filter of the call."""
        text = f"select {_TOTALS[name].format(column)} from {TABLE}"
        total: Tree = _parsed(self.connection, text)["statements"][0]["node"]["select_list"][0]
        _filter(total, self.rewritten(call["filter"]))
        return {**total, "alias": call["alias"]}


def _filter(one: Any, condition: Tree | None) -> None:
    """Put the condition on each aggregate."""
    for part in one.values() if isinstance(one, dict) else one if isinstance(one, list) else ():
        _filter(part, condition)
    if isinstance(one, dict) and one.get("function_name") in ("sum", "min", "max"):
        one["filter"] = condition
