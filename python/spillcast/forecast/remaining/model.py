"""The entire query from a recording of a part of it, as draws.

At the end of the recording a query has written and read some bytes: bytes within the recording are
known, bytes before it follow from the sizes of its files, from the kernel's counts and from the
time (`progress`). What remains are

- writes: the bytes of the entire query by a source, less the bytes done, or else what the files
  themselves show, and
- reads: unread bytes in files, and bytes that are still to be written.

Each remaining byte takes the time that a byte of its op took in the recording, within operations
and between them; the time between them follows its trend within the recording. The elapsed time is
the sum of these times and the time done. All figures are drawn with their errors. If the elapsed
time itself is given, draws that agree with it are picked, so it also decides how many bytes remain.
If nothing bounds the remaining writes, there is only a lower bound: no more writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log

import numpy as np

from spillcast.columns import Floats, Integers
from spillcast.forecast.interval import DRAWS
from spillcast.forecast.remaining.progress import (
    ELAPSED,
    FILES_SOURCE,
    Estimated,
    Quantity,
    QueryProgress,
    Rate,
)
from spillcast.forecast.result import Remaining, RemainingQuantity
from spillcast.forecast.workload.load import Load, total_s
from spillcast.recording import OPS
from spillcast.stats import inverse_variance
from spillcast.units import format_duration

#: The latency of the entire query is at most this multiple of the recorded one, or its inverse.
MAX_SLOWER = 2.0


@dataclass(frozen=True)
class RemainingWork:
    """Draws of the entire query on the recorded storage; their medians are the estimates."""

    progress: QueryProgress
    elapsed_s: Floats
    #: The time outside temp I/O.
    rest_s: Floats
    #: By op: bytes of the entire query, bytes that remain, and the time per byte (or a guess).
    bytes: Mapping[str, Floats]
    remaining_bytes: Mapping[str, Floats]
    io_s_per_byte: Mapping[str, float]
    #: The sources of ``written``, ``read`` and ``elapsed``.
    sources: Mapping[str, str]
    #: Whether the time outside temp I/O is extrapolated, not from a previous run.
    guessed: bool
    #: Whether the elapsed time was given, which determines the time of unrecorded operations.
    timed: bool

    def total_s(self, loads: Sequence[Load]) -> float:
        """Elapsed time (s) of the entire query: the time outside temp I/O, and its ``loads``."""
        io_s = total_s(loads) / self.progress.overlap
        return max(float(np.median(self.rest_s)) + io_s, self.progress.done_s)

    def total_bytes(self, op: str) -> float:
        """Bytes that the entire query moves."""
        return float(np.median(self.bytes[op]))

    def loads(self, recorded: Sequence[Load]) -> list[Load]:
        """The loads of the entire query, scaled from those recorded.

        An op that was not recorded has the sizes of the other op.
        """
        results, overlap = [], self.progress.overlap
        for op in sorted(self.bytes):
            was_seen = op in self.progress.rates
            alike = [load for load in recorded if (load.op == op) == was_seen]
            times = self.total_bytes(op) / max(sum(load.bytes for load in alike), 1)
            for load in alike:
                count, size = round(times * load.count), round(times * load.bytes)
                guessed_s = overlap * size * self.io_s_per_byte[op]
                took_s = times * load.total_s if was_seen else guessed_s
                if count:
                    results.append(replace(load, op=op, count=count, bytes=size, total_s=took_s))
        slower, io_s = 1.0, total_s(results) / overlap
        if self.timed and io_s > 0:
            left_s = float(np.median(self.elapsed_s)) - float(np.median(self.rest_s))
            slower = min(max(left_s / io_s, 1 / MAX_SLOWER), MAX_SLOWER)
        results = [replace(load, total_s=slower * load.total_s) for load in results]
        return sorted(results, key=lambda load: load.kind)

    def factors(self) -> Mapping[str, Floats]:
        """Draws of the bytes of each op, relative to their median."""
        return {op: drawn / max(self.total_bytes(op), 1.0) for op, drawn in self.bytes.items()}

    def summary(self, unused: Sequence[str]) -> Remaining:
        """The entry of a forecast's document; ``unused`` are unused hints with reasons."""

        def quantity(drawn: Floats, source: str, **bytes_of: float) -> RemainingQuantity:
            low, centre, high = np.quantile(drawn, [0.05, 0.5, 0.95]).tolist()
            return RemainingQuantity(low=low, centre=centre, high=high, source=source, **bytes_of)

        def quantity_of(op: str, source: str) -> RemainingQuantity:
            left, recorded = self.remaining_bytes[op], self.progress.bytes[op]
            done = float(np.median(self.bytes[op] - left))
            return quantity(left, source, done=done, recorded=recorded)

        done_s = self.progress.done_s
        return Remaining(
            done_s=done_s,
            reads_bytes=quantity_of("read", self.sources["read"]),
            writes_bytes=quantity_of("write", self.sources["written"]),
            elapsed_s=quantity(np.maximum(self.elapsed_s - done_s, 0), self.sources["elapsed"]),
            unused=list(unused),
        )


#: The number of draws, from which the draws that agree with a given elapsed time are picked.
CANDIDATES = 10 * DRAWS
#: Standard deviations of the logarithm. Bytes read over bytes written.
READ_SPREAD = 0.08
#: Time per remaining byte, within and between operations, over that per recorded byte.
IO_SPREAD, REST_SPREAD = 0.08, 0.5
UNSEEN_IO_SPREAD, UNSEEN_REST_SPREAD = 1.0, 0.7
#: Remaining over finished writes, if no source shows them.
UNKNOWN_SPREAD = 1.5
#: Time outside temp I/O before the recording, from the CPU time until then.
REST_BEFORE_SPREAD = 0.35
#: Least share of a time that lies outside temp I/O.
MIN_REST = 0.02
#: Probability that a query that no longer writes will write again, if no source estimates bytes.
WRITES_AGAIN = 0.5
#: The time per byte of an unrecorded op follows from the time before the recording, if the op moved
#: this share of the written bytes then. It is within this factor of the other op's.
MIN_PASSED, UNLIKE = 0.1, 20.0
#: Upper limit (and inverse of the lower) of the growth of the time between operations per byte.
MAX_GROWTH = 2.0
#: Share of the elapsed time that may come after the last temp I/O.
TAIL = 0.03
#: A given elapsed time contradicts the recording if fewer draws than this agree with it.
MIN_AGREEING = 50
#: Largest excess of the entire query's time over a given time, in standard deviations.
MAX_LONGER = 2.0


@dataclass(frozen=True)
class Extrapolation:
    """The entire query by all sources; ``work`` is None if no source estimates it."""

    work: RemainingWork | None = None
    #: The remaining work: from ``work``, or else a lower bound.
    to_come: Remaining | None = None
    #: Hints that are not used, with reasons.
    unused: Sequence[str] = ()


#: One estimate for each quantity that sources show.
Pooled = Mapping[Quantity, Estimated]


def extrapolate(
    progress: QueryProgress, estimates: Sequence[Estimated], unused: Sequence[str] = ()
) -> Extrapolation:
    """The entire query from ``estimates``; ``unused`` are hints that sources did not use."""
    pooled = _pooled_by_quantity(estimates)
    if not {"written", "writes", "elapsed"} & pooled.keys():
        return Extrapolation(None, _lower_bound(progress), unused)
    rng = np.random.default_rng(0)
    drawn = _drawn(progress, pooled, rng)
    rest_s, elapsed_s = drawn.rest_s, np.maximum(drawn.rest_s + drawn.io_s, progress.done_s)
    picked = rng.integers(0, CANDIDATES, DRAWS)
    if (given := pooled.get("elapsed")) is not None:
        agreeing = _agreeing(elapsed_s, given, rng)
        fits = _fitting(drawn, given, rng) if agreeing is None else agreeing
        if fits is None:
            by_user = any(estimate.source == ELAPSED for estimate in estimates)
            others = [estimate for estimate in estimates if estimate.quantity != "elapsed"]
            reason = _contradiction(given, drawn, pooled)
            return extrapolate(progress, [] if by_user else others, [*unused, reason])
        picked = fits
        given_s = np.maximum(given.drawn(rng.standard_normal(DRAWS)), progress.done_s)
        if agreeing is not None:
            rest_s[picked] *= given_s / elapsed_s[picked]
        else:
            if given.centre >= float(np.median(elapsed_s)):
                rest = f" of {pooled['rest'].source}" if "rest" in pooled else " so far"
                longer = f"{given.source} ({format_duration(given.centre)}) leaves far more for it"
                unused = [*unused, f"the time outside temp I/O{rest}: {longer}"]
            rest_s[picked] = np.maximum(given_s - drawn.io_s[picked], drawn.min_rest_s[picked])
        elapsed_s[picked] = given_s
    work = RemainingWork(
        progress=progress,
        elapsed_s=elapsed_s[picked],
        rest_s=rest_s[picked],
        bytes={op: (drawn.done[op] + drawn.left[op])[picked] for op in OPS},
        remaining_bytes={op: drawn.left[op][picked] for op in OPS},
        io_s_per_byte=drawn.io_s_per_byte,
        sources=_sources(pooled),
        guessed="rest" not in pooled,
        timed="elapsed" in pooled,
    )
    return Extrapolation(work, work.summary(unused), unused)


def _pooled_by_quantity(estimates: Sequence[Estimated]) -> Pooled:
    """One estimate for each quantity: the mean of several, weighted by inverse variance.

    If they differ by more than their spreads explain, the spread is scaled up (Birge ratio). An
    estimate of all bytes written replaces an estimate of the remaining writes by the files, which
    more may follow.
    """
    groups: dict[Quantity, list[Estimated]] = {}
    for estimate in estimates:
        groups.setdefault(estimate.quantity, []).append(estimate)
    if "written" in groups:
        groups.pop("writes", None)
    pooled = dict[Quantity, Estimated]()
    for quantity, alike in groups.items():
        pooled[quantity] = alike[0]
        if len(alike) > 1:
            logs = np.array([log(estimate.centre) for estimate in alike])
            spreads = np.array([estimate.spread for estimate in alike])
            weights, spread = inverse_variance(logs, spreads)
            order = np.argsort(-weights, kind="stable")
            source = " and ".join(dict.fromkeys(alike[at].source for at in order))
            middle = exp(float(weights @ logs))
            pooled[quantity] = Estimated.around(quantity, middle, spread, source)
    return pooled


def _lower_bound(progress: QueryProgress) -> Remaining:
    """The least remaining work, without an upper bound: reads of unread bytes, and no CPU time."""
    rng = np.random.default_rng(0)
    done, _ = _moved_bytes(progress, {}, rng)
    _, io_each_s = _time_outside(progress, done, rng)
    low_s = float(np.quantile(progress.unread.lower * io_each_s["read"], 0.05))

    def at_least(low: float, op: str | None = None) -> RemainingQuantity:
        moved = {"done": float(np.median(done[op])), "recorded": progress.bytes[op]} if op else {}
        return RemainingQuantity(low=low, centre=None, high=None, source=FILES_SOURCE, **moved)

    return Remaining(
        done_s=progress.done_s,
        reads_bytes=at_least(progress.unread.lower, "read"),
        writes_bytes=at_least(0.0, "write"),
        elapsed_s=at_least(low_s),
        still_writing=progress.writes_at_full_rate,
    )


@dataclass(frozen=True)
class _Drawn:
    """Draws of the entire query before its elapsed time is taken into account."""

    #: Bytes by op: moved by the recording's end, and remaining.
    done: Mapping[str, Floats]
    left: Mapping[str, Floats]
    #: The time outside temp I/O, and in temp I/O.
    rest_s: Floats
    io_s: Floats
    #: The time outside temp I/O by the recording's end, or in total by a previous run.
    min_rest_s: Floats
    io_s_per_byte: Mapping[str, float]


def _drawn(progress: QueryProgress, pooled: Pooled, rng: np.random.Generator) -> _Drawn:
    done, left = _moved_bytes(progress, pooled, rng)
    passed_s, io_each_s = _time_outside(progress, done, rng)
    rest_each_s = _rest_each_s(progress, done, left, passed_s, rng)
    io_s = progress.done_s - passed_s + sum(left[op] * io_each_s[op] for op in OPS)
    tail_s = TAIL * progress.done_s * np.abs(rng.standard_normal(CANDIDATES))
    rest_s = passed_s + sum(left[op] * rest_each_s[op] for op in OPS) + tail_s
    if "rest" in pooled:
        # At least the time that has passed already.
        rest_s = pooled["rest"].drawn(rng.standard_normal(CANDIDATES))
        rest_s = passed_s = np.maximum(rest_s, progress.rest_s)
    each_s = {op: float(np.median(io_each_s[op])) for op in OPS}
    return _Drawn(done, left, rest_s.copy(), io_s, passed_s, each_s)


def _moved_bytes(
    progress: QueryProgress, pooled: Pooled, rng: np.random.Generator
) -> tuple[Mapping[str, Floats], Mapping[str, Floats]]:
    """Draws of the bytes by op that are done by the recording's end, and that remain."""
    normal, uniform = rng.standard_normal((4, CANDIDATES)), rng.uniform(0, 1, (2, CANDIDATES))
    files = progress.unread
    min_done = max(files.written_since + files.held_before, progress.bytes["write"])
    earlier = max(progress.written - min_done, 0.0)
    done = min_done + earlier * np.exp(progress.before_error * normal[0])
    given = pooled.get("written")
    goes_on = uniform[0] < _probability_of_writes(given, progress)
    if given is not None:
        total = np.maximum(given.drawn(normal[1]), min_done)
        writes = np.maximum(total - done, 0.0) * goes_on
        # If nothing remains, done and total are two estimates of one figure, weighted by error.
        weight = _weight(progress.before_error, given.spread)
        all_done = np.maximum(done, 1.0) ** (1 - weight) * np.maximum(total, 1.0) ** weight
        done = np.where(writes > 0, done, np.maximum(all_done, min_done))
    elif "writes" in pooled and "elapsed" not in pooled:
        writes = pooled["writes"].drawn(normal[1])
    else:
        writes = done * np.exp(UNKNOWN_SPREAD * normal[1]) * goes_on
    unread = np.minimum(files.drawn(uniform[1]), done)
    reads = (unread + writes) * np.exp(READ_SPREAD * normal[2])
    # Bytes that were written and are not unread were read.
    read = np.maximum(done - unread, progress.bytes["read"])
    if "read" in pooled:
        total = pooled["read"].drawn(normal[3])
        reads = np.minimum(reads, np.maximum(total - progress.bytes["read"], 0.0))
        read = np.maximum(total - reads, progress.bytes["read"])
    return {"write": done, "read": read}, {"write": writes, "read": reads}


def _probability_of_writes(given: Estimated | None, progress: QueryProgress) -> float:
    """Probability (Bayes) that a query will write more bytes, even if it has stopped writing."""
    if "write" in progress.recent_ops:
        return 1.0
    if given is None:
        return WRITES_AGAIN
    off = max(log(given.centre / max(progress.written, 1.0)), 0.0)
    off /= hypot(*given.spreads, progress.before_error) / 2**0.5
    return WRITES_AGAIN / (WRITES_AGAIN + (1 - WRITES_AGAIN) * exp(-(off**2) / 2))


def _weight(error: float, of_other: float) -> float:
    """Weight of the second of two figures, by inverse variance."""
    return error**2 / (error**2 + of_other**2) if error else 0.0


def _time_outside(
    progress: QueryProgress, done: Mapping[str, Floats], rng: np.random.Generator
) -> tuple[Floats, Mapping[str, Floats]]:
    """Time outside temp I/O by the recording's end (s), and the time of operations per byte by op.

    The time of an op that was not recorded follows from the time before the recording, less the
    CPU time and the other op's time.
    """
    before = {op: np.maximum(done[op] - progress.bytes[op], 0.0) for op in OPS}
    each_s = {op: rate.io_s * _factors(IO_SPREAD, rng) for op, rate in progress.rates.items()}
    io_s = sum((before[op] * each for op, each in each_s.items()), np.zeros(CANDIDATES))
    before_s, by_cpu_s, min_rest_s = progress.before_s, None, MIN_REST * progress.before_s
    unseen = [op for op in OPS if op not in each_s]
    follows = any(np.median(before[op]) > MIN_PASSED * progress.written for op in unseen)
    if progress.rest_before_s is not None:
        by_cpu_s = progress.rest_before_s * _factors(REST_BEFORE_SPREAD, rng)
    for op in unseen:
        [like_s] = each_s.values()
        each_s[op] = like_s * _factors(UNSEEN_IO_SPREAD, rng)
        if by_cpu_s is not None and follows:
            left_s = np.maximum(before_s - np.minimum(by_cpu_s, before_s) - io_s, min_rest_s)
            each_s[op] = left_s / np.maximum(before[op], 1.0)
            each_s[op] = np.clip(each_s[op], like_s / UNLIKE, like_s * UNLIKE)
        io_s = io_s + before[op] * each_s[op]
    rest_s = np.maximum(before_s - io_s, min_rest_s)
    if by_cpu_s is not None and progress.rest_before_s is not None:
        # If the times of both ops are known, the time without them is a second estimate.
        errors = (REST_BEFORE_SPREAD * progress.rest_before_s, IO_SPREAD * float(np.median(io_s)))
        weight = 0.0 if follows else _weight(*errors)
        rest_s = np.minimum(rest_s * weight + by_cpu_s * (1 - weight), before_s)
    return rest_s + progress.rest_s, each_s


def _rest_each_s(
    progress: QueryProgress,
    done: Mapping[str, Floats],
    left: Mapping[str, Floats],
    rest_s: Floats,
    rng: np.random.Generator,
) -> Mapping[str, Floats]:
    """Time outside temp I/O per remaining byte (s), by op."""
    spilling_s = np.maximum(rest_s - progress.ahead_s, MIN_REST * rest_s)
    mean_s = spilling_s / np.maximum(done["read"] + done["write"], 1.0)
    each_s = {}
    for op in OPS:
        rate, spread = progress.rates.get(op), REST_SPREAD
        if rate is not None:
            grown = _growth(rate, left[op], progress.bytes[op])
            each_s[op] = np.maximum(rate.rest_s * grown, MIN_REST * mean_s)
        else:
            # An unrecorded op takes at most the time of the other op and at most the mean, but at
            # least the time that has passed, spread over all bytes to be written.
            [like], spread = progress.rates.values(), UNSEEN_REST_SPREAD
            written = np.maximum(done["write"] + left["write"], 1.0)
            each_s[op] = np.maximum(np.minimum(max(like.rest_s, 0.0), mean_s), rest_s / written)
        each_s[op] = each_s[op] * _factors(spread, rng)
    return each_s


def _growth(rate: Rate, left: Floats, recorded: float) -> Floats:
    """Draws of the time per remaining byte over the recorded time per byte.

    The trend of the recording may end anywhere in the remaining bytes.
    """
    rng = np.random.default_rng(1)
    slope, error = rate.growth
    drawn = slope + error * rng.standard_normal(CANDIDATES)
    goes_on = rng.uniform(0, 1, CANDIDATES) * left / max(recorded, 1.0)
    return np.clip(1 + drawn * (1 + goes_on) / 2, 1 / MAX_GROWTH, MAX_GROWTH)


def _factors(spread: float, rng: np.random.Generator) -> Floats:
    """Draws of a log-normal factor around 1."""
    return np.asarray(np.exp(spread * rng.standard_normal(CANDIDATES)))


def _agreeing(elapsed_s: Floats, given: Estimated, rng: np.random.Generator) -> Integers | None:
    """Indexes of draws, picked by their agreement with the given elapsed time; None if too few."""
    spread = max(*given.spreads, 0.03)
    weight = np.exp(-((np.log(elapsed_s / given.centre) / spread) ** 2) / 2)
    if weight.sum() ** 2 < MIN_AGREEING * max((weight**2).sum(), 1e-300):
        return None
    return rng.choice(len(weight), DRAWS, p=weight / weight.sum())


def _fitting(drawn: _Drawn, given: Estimated, rng: np.random.Generator) -> Integers | None:
    """Indexes of draws whose least time fits the given elapsed time; None if there are too few."""
    max_s = given.centre * exp(MAX_LONGER * given.spreads[1])
    fit = np.flatnonzero(drawn.io_s + drawn.min_rest_s <= max_s)
    return rng.choice(fit, DRAWS) if len(fit) >= MIN_AGREEING else None


def _contradiction(given: Estimated, drawn: _Drawn, pooled: Pooled) -> str:
    """A sentence on what contradicts a given elapsed time."""
    known = [pooled[quantity].source for quantity in ("written", "rest") if quantity in pooled]
    sources = f", by {' and '.join(dict.fromkeys(known))}" if known else ""
    io_s, rest_s = float(np.median(drawn.io_s)), float(np.median(drawn.min_rest_s))
    return (
        f"{given.source}: {format_duration(given.centre)} is too short for temp I/O of about "
        f"{format_duration(io_s)} and {format_duration(rest_s)} beside it{sources}"
    )


def _sources(pooled: Pooled) -> Mapping[str, str]:
    """The source of each figure, for the table of remaining work."""
    sources = {quantity: given.source for quantity, given in pooled.items()}
    elapsed, rest = sources.get("elapsed"), sources.get("rest")
    written = sources.get("written")
    if written is None:
        written = f"{elapsed}, at the rates seen" if elapsed else sources["writes"]
    read = sources.get("read") or ("the remaining writes" if written != FILES_SOURCE else None)
    rates = "the remaining bytes, at the time each took"
    return {
        "written": written,
        "read": FILES_SOURCE if read is None else f"{FILES_SOURCE}; {read}",
        "elapsed": elapsed or (rates if rest is None else f"{rest}; {rates}"),
    }
