"""Ranks a server's statements by a history of snapshots, with changes of spills and alerts."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal

from spillcast.engines.postgres.rank import of_rows
from spillcast.engines.ranking import (
    Alert,
    Bucket,
    Change,
    RankRequest,
    RateLimit,
    ServerEvent,
    ServerRanking,
    SpillHistory,
    StatementBytes,
)
from spillcast.errors import EvidenceIncomplete, SelectionEmpty
from spillcast.evidence.numbers import unix_time_s
from spillcast.evidence.postgres import BLOCK_BYTES
from spillcast.evidence.postgres.logs import Logs, normal
from spillcast.evidence.postgres.statements import TEMP_TIMES, StatementRow
from spillcast.fleet.dataset import Dataset
from spillcast.fleet.snapshots import (
    NESTED,
    DatabaseSpill,
    Period,
    Snapshot,
    Unseen,
    chains,
    periods,
    read_snapshots,
    sums_of,
    temp_blocks,
)
from spillcast.gate import reading
from spillcast.redaction import masked_text

#: Lengths of buckets (s), and the maximum number of buckets on a page.
_BUCKETS_S, _BUCKETS_MAX = (60.0, 300.0, 3600.0, 86_400.0), 31
#: Ratio up to which a figure per call counts as unchanged, and beyond which a plan has changed.
_SAME, _OTHER = 1.1, 1.5
_WORKERS_MIN = 0.5
#: Kinds of events that last from snapshot to snapshot.
_LASTING = ("hidden", "uncounted")
#: A period, and the sums of a statement in it.
_Point = tuple[Period, Mapping[str, Any]]


def rank_snapshots(
    address: str,
    request: RankRequest,
    *,
    since_s: float | None = None,
    logs: Logs | None = None,
    rules: Sequence[RateLimit] = (),
) -> list[ServerRanking]:
    """The rankings of all servers in the dataset of snapshots at ``address``, by name.

    Each covers ``since_s`` before the server's last snapshot, or all if None. InputError if there
    are no snapshots, or only one of each server.
    """
    servers: dict[str, list[list[Snapshot]]] = {}
    for snapshots in chains(read_snapshots(Dataset.open(address))):
        servers.setdefault(snapshots[-1].name, []).append(snapshots)
    hint = "save one with: spillcast postgres DSN --save DIR"
    if not servers:
        raise SelectionEmpty("no snapshots of a server", hint, address)
    if all(len(snapshots) == 1 for instances in servers.values() for snapshots in instances):
        raise EvidenceIncomplete(
            "one snapshot of each server, and spills are counted between two", hint, address
        )
    with reading(address, "save snapshots into a new folder"):
        windows = [_Window(name, instances, since_s) for name, instances in sorted(servers.items())]
    return [window.ranking(request, logs, rules) for window in windows]


class _Window:
    """The activity of a server in the window."""

    def __init__(
        self, name: str, instances: Sequence[Sequence[Snapshot]], since_s: float | None
    ) -> None:
        self.name = name
        in_order = sorted(chain.from_iterable(instances), key=lambda snapshot: snapshot.number)
        self.first, self.last = in_order[0], in_order[-1]
        self.begin_s = -math.inf if since_s is None else self.last.taken_s - since_s
        self.activity = [(snapshots, list(periods(snapshots))) for snapshots in instances]
        shown = [p for _, of_instance in self.activity for p in of_instance if self._shows(p)]
        self.sums = sums_of(grown for period in shown for grown in period.statements)
        for sums in self.sums.values():
            sums["query"] = None if sums["query"] is None else masked_text(sums["query"])
        self.databases: dict[str, tuple[int, int]] = {}
        for database, (files, size) in chain.from_iterable(p.databases.items() for p in shown):
            was = self.databases.get(database, (0, 0))
            self.databases[database] = was[0] + files, was[1] + size
        self.points: dict[str, list[_Point]] = {queryid: [] for queryid in self.sums}
        for period in shown:
            whole = (grown for grown in period.statements if not grown.includes_earlier)
            for queryid, sums in sums_of(whole).items():
                self.points[queryid].append((period, sums))
        self.periods = sorted(shown, key=lambda period: period.after.number)
        self.first_spills = list(self._first_spills())

    def _shows(self, period: Period) -> bool:
        return period.after.taken_s > self.begin_s

    def _first_spills(self) -> Iterator[Change]:
        """The changes of statements that spill in the window, but in no snapshot before."""
        spilled = set[str]()
        for snapshots, of_instance in self.activity:
            looks: list[tuple[Iterable[Mapping[str, Any]], Period | None]]
            looks = [(snapshots[0].rows, None)]
            for period in of_instance:
                grown = (grown.row for grown in period.statements)
                looks.append((grown, period if self._shows(period) else None))
                looks.append((period.after.rows, None))
            for row, begun_in in ((row, begun_in) for rows, begun_in in looks for row in rows):
                if not temp_blocks(row):
                    continue
                names = {str(row["queryid"]), normal(row["query"] or "") or str(row["queryid"])}
                if begun_in is not None and spilled.isdisjoint(names):
                    yield _first_spill(row, begun_in)
                spilled |= names

    def _events(self) -> list[ServerEvent]:
        """The events by time; states that last from snapshot to snapshot are listed once."""
        events: dict[tuple[str, str, float | None], ServerEvent] = {}
        for at, (snapshots, of_instance) in enumerate(self.activity):
            begin_s = snapshots[0].taken_s
            if at and begin_s >= self.begin_s:
                text = f"another instance, PostgreSQL {snapshots[0].version}: counted from here on"
                events["instance", text, begin_s] = ServerEvent(begin_s, "instance", text)
            for period in filter(self._shows, of_instance):
                at_s = period.after.taken_s
                for kind, text in period.events.items():
                    key = kind, text, None if kind in _LASTING else at_s
                    events.setdefault(key, ServerEvent(at_s, kind, text))
        return sorted(events.values(), key=lambda event: event.at_s)

    def ranking(
        self, request: RankRequest, logs: Logs | None, rules: Sequence[RateLimit]
    ) -> ServerRanking:
        rows = [StatementRow.of({**sums, **self.last.limits}) for sums in self.sums.values()]
        covered_s = sum(period.length_s or 0.0 for period in self.periods)
        single = "spills: they are counted between two snapshots, and this time has one"
        unseen = [] if self.periods else [Unseen("spills", single)]
        grown = (grown for period in self.periods for grown in period.statements)
        if any(statement.row.get("toplevel") is False for statement in grown):
            unseen.append(NESTED)
        return ServerRanking(
            source=self.name,
            window_s=covered_s or None,
            statements=of_rows(rows, logs, request),
            targets=request.targets,
            confidence=request.confidence,
            statements_seen=self.last.statements_seen,
            databases=[
                DatabaseSpill(name, *growth, since_s=self.periods[0].before.taken_s, active_s=None)
                for name, growth in self.databases.items()
            ],
            database_temp_bytes=sum(growth[1] for growth in self.databases.values()),
            settings=self.last.settings,
            unseen=unseen,
            history=self._history(rules),
            counted=rows,
        )

    def _history(self, rules: Sequence[RateLimit]) -> SpillHistory:
        changes = [*self.first_spills]
        for queryid, points in self.points.items():
            changes += _changes(queryid, self.sums[queryid]["query"], points)
        grown = [grown for period in self.periods for grown in period.statements]
        bucket_s, buckets = _buckets(self.periods)
        return SpillHistory(
            looks=len(self.periods) + 1,
            first_s=self.periods[0].before.taken_s if self.periods else self.first.taken_s,
            last_s=self.last.taken_s,
            version=self.last.version,
            bucket_s=bucket_s,
            buckets=buckets,
            changes=sorted(changes, key=lambda change: -change.after_s),
            events=self._events(),
            lower_bounds=len({str(g.row["queryid"]) for g in grown if g.is_lower_bound}),
            earlier_calls=len({str(g.row["queryid"]) for g in grown if g.includes_earlier}),
            alerts=[self._alert(rule) for rule in rules],
        )

    def _alert(self, rule: RateLimit) -> Alert:
        """Applies a rule to the latest periods; unknown if the last is older than its time."""
        new = Counter(change.by_s for change in self.first_spills)
        rates = []
        for period in self.periods:
            growths = period.databases.values()
            sums = {
                "temp": float(sum(size for _, size in growths)),
                "files": float(sum(files for files, _ in growths)),
                "time": _temp_s(period),
                "new": float(new[period.after.taken_s]) if _is_counted(period) else None,
            }
            rates.append((period.length_s or 0.0, sums))
        alert = rule.alert(rates)
        longest_s = max((length_s for length_s, _ in rates), default=0.0)
        if time.time() - self.last.taken_s > max(rule.per_s, 2 * longest_s):
            return replace(alert, rate=None, exceeded=False)
        return alert


def _is_counted(period: Period) -> bool:
    """Whether both snapshots have counts of pg_stat_statements."""
    return None not in (period.before.statements_seen, period.after.statements_seen)


def _temp_s(period: Period) -> float | None:
    """The time of all processes in temp I/O; None if it was not counted, as before version 15."""
    after, rows = period.after, [grown.row for grown in period.statements]
    lacks = any(row.get(name) is None for row in (*after.rows, *rows) for name in TEMP_TIMES)
    if lacks or after.settings.get("track_io_timing") == "off" or not _is_counted(period):
        return None
    return sum((float(row[name]) for row in rows for name in TEMP_TIMES), 0.0) / 1e3


def _buckets(shown: Sequence[Period]) -> tuple[float, list[Bucket]]:
    """The length of buckets (s), and the sums of the periods whose middle is in each."""
    if not shown:
        return _BUCKETS_S[-1], []
    ends_s = [period.after.taken_s for period in shown]
    span_s = max(ends_s) - min(ends_s) + (shown[0].length_s or 0.0)
    fitting = (length_s for length_s in _BUCKETS_S if span_s <= _BUCKETS_MAX * length_s)
    bucket_s = next(fitting, _BUCKETS_S[-1])
    by_start: dict[int, list[Period]] = {}
    for period in shown:
        by_start.setdefault(int(period.middle_s // bucket_s), []).append(period)
    form = "%Y-%m-%d" if bucket_s == _BUCKETS_S[-1] else "%Y-%m-%d %H:%M"
    buckets = []
    for start, of_bucket in sorted(by_start.items()):
        temp_bytes = Counter[str]()
        for grown in (grown for period in of_bucket for grown in period.statements):
            temp_bytes[str(grown.row["queryid"])] += BLOCK_BYTES * temp_blocks(grown.row)
        growths = [growth for period in of_bucket for growth in period.databases.values()]
        times_s = [time_s for period in of_bucket if (time_s := _temp_s(period)) is not None]
        buckets.append(
            Bucket(
                start=f"{datetime.fromtimestamp(start * bucket_s, UTC):{form}}",
                covered_s=sum(period.length_s or 0.0 for period in of_bucket),
                temp_files=sum(files for files, _ in growths),
                written_bytes=sum(size for _, size in growths),
                temp_bytes=temp_bytes.total(),
                temp_s=sum(times_s) if len(times_s) == len(of_bucket) else None,
                statements=[StatementBytes(*item) for item in temp_bytes.most_common() if item[1]],
            )
        )
    return bucket_s, buckets


def _first_spill(row: Mapping[str, Any], period: Period) -> Change:
    """The change of a statement that spills for the first time."""
    since_s = unix_time_s(row.get("stats_since"))
    is_first = since_s is not None and since_s >= period.before.taken_s
    ran = "it ran for the first time" if is_first else "it ran before without spilling"
    return Change(
        kind="new",
        queryid=str(row["queryid"]),
        query=row["query"],
        after_s=period.before.taken_s,
        by_s=period.after.taken_s,
        # The counters do not separate the calls before the first spill.
        bytes_per_call=BLOCK_BYTES * temp_blocks(row) / row["calls"],
        ratio=None,
        is_gradual=False,
        cause="statement" if is_first else None,
        evidence=[] if since_s is None else [ran],
    )


def _changes(queryid: str, query: str | None, points: Sequence[_Point]) -> Iterator[Change]:
    """The changes of a statement's temp bytes per call, with their causes."""
    points = [(period, sums) for period, sums in points if sums["calls"]]
    levels = [math.log(max(temp_blocks(sums) / sums["calls"], 1.0)) for _, sums in points]
    splits = steps(levels)
    ends = [0, *(at for at, _ in splits), len(points)]
    for number, (at, is_gradual) in enumerate(splits):
        before, after = (
            _per_call([sums for _, sums in points[begin:end]])
            for begin, end in ((ends[number], at), (at, ends[number + 2]))
        )
        ratio = after["temp"] / max(before["temp"], 1.0)
        cause, evidence = _cause(before, after, ratio, points[at][0])
        yield Change(
            kind="more" if ratio > 1 else "less",
            queryid=queryid,
            query=query,
            after_s=points[at][0].before.taken_s,
            by_s=points[at][0].after.taken_s,
            bytes_per_call=BLOCK_BYTES * after["temp"],
            ratio=ratio,
            is_gradual=is_gradual,
            cause=cause if not is_gradual or cause == "rows" else None,
            evidence=evidence,
        )


def _per_call(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Temp blocks, rows, table blocks and planned parallel workers per call."""
    calls = sum(sums["calls"] for sums in parts)
    names = {
        "temp": ("temp_blks_read", "temp_blks_written"),
        "rows": ("rows",),
        "table blocks": ("shared_blks_hit", "shared_blks_read"),
        "workers": ("parallel_workers_to_launch",),
    }
    return {
        name: sum(sums.get(column, 0.0) for sums in parts for column in columns) / calls
        for name, columns in names.items()
    }


def _cause(
    before: Mapping[str, float], after: Mapping[str, float], ratio: float, period: Period
) -> tuple[Literal["version", "setting", "rows", "plan"] | None, list[str]]:
    """The cause of a change, and the evidence for it in the counters; None if it is unclear."""
    evidence, ratios = [], {}
    for name in ("rows", "table blocks"):
        ratios[name] = (after[name] + 1e-9) / (before[name] + 1e-9)
        same = 1 / _SAME <= ratios[name] <= _SAME
        evidence.append(f"{name} per call {'unchanged' if same else f'{ratios[name]:.2g} times'}")
    changed = [
        text for kind, text in period.events.items() if kind.endswith(("_mem", "_multiplier"))
    ]
    workers = before["workers"], after["workers"]
    if abs(workers[1] - workers[0]) >= _WORKERS_MIN:
        planned = "parallel workers per call planned instead of"
        evidence.append(f"{workers[1]:.2g} {planned} {workers[0]:.2g}")
    if "version" in period.events:
        return "version", [*evidence, period.events["version"]]
    if changed:
        return "setting", [*evidence, *changed]
    if abs(math.log(ratios["rows"])) > math.log(_SAME):
        return "rows", evidence
    if abs(workers[1] - workers[0]) >= _WORKERS_MIN:
        return "plan", evidence
    # More data would change table blocks and temp bytes by one ratio; otherwise the plan changed.
    blocks = ratios["table blocks"]
    if not 1 / _OTHER < blocks < _OTHER and not 1 / _OTHER < ratio / blocks < _OTHER:
        return "plan", evidence
    return None, evidence


#: The smallest factor of temp bytes per call that counts as a change.
_RATIO_MIN = 1.5
#: The minimum share of points on their level's side of the middle between two levels, and the
#: minimum share of the change in a single step that makes the change abrupt.
_SEPARATE_MIN, _ABRUPT_MIN = 0.9, 0.6
_SIDE_MIN = 3


def steps(levels: Sequence[float]) -> list[tuple[int, bool]]:
    """Where a series of logarithms changes its level: pairs of an index and whether gradually.

    A step is the split with the least squared deviations from the means of both sides, provided
    that the sides are separate.
    """
    import numpy as np

    count = len(levels)
    if count < 2 * _SIDE_MIN:
        return []
    values = np.asarray(levels, dtype=float)
    ends = np.arange(1, count)
    below, total = np.cumsum(values)[:-1], values.sum()
    gain = below**2 / ends + (total - below) ** 2 / (count - ends)
    gain[: _SIDE_MIN - 1] = gain[count - _SIDE_MIN :] = -1.0
    at = int(ends[int(np.argmax(gain))])
    left, right = values[:at], values[at:]
    change = right.mean() - left.mean()
    middle = (left.mean() + right.mean()) / 2
    sides = ((left - middle) * change < 0).mean(), ((right - middle) * change > 0).mean()
    if abs(change) < np.log(_RATIO_MIN):
        return []
    if min(sides) < _SEPARATE_MIN:
        # The level may have changed and come back: searches for steps in the parts.
        earlier = steps(levels[:at])
        begin = earlier[-1][0] if earlier else at
        return [*earlier, *((begin + step, slow) for step, slow in steps(levels[begin:]))]
    if (values[at] - values[at - 1]) * np.sign(change) < _ABRUPT_MIN * abs(change):
        return [(at, True)]
    later = [(at + step, slow) for step, slow in steps(levels[at:])]
    return [*steps(levels[:at]), (at, False), *later]
