"""The whole of a partly recorded query: all sources drawn together, and kept where times agree."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.interval import DRAWS
from spillcast.forecast.load import Load
from spillcast.forecast.remaining.progress import Array, Progress
from spillcast.forecast.remaining.sources import (
    ELAPSED,
    FILES_SOURCE,
    Estimate,
    Quantity,
    pool,
)
from spillcast.forecast.result import Remaining, RemainingQuantity
from spillcast.recording.event_names import OPS
from spillcast.units import format_duration

#: Operations of the whole take no more than so many times what those recorded took, or less.
SLOWER_MOST = 2.0


@dataclass(frozen=True)
class RemainingWork:
    """Draws of the whole on the storage of the recording; their medians are its figures."""

    #: Elapsed time of the query by the recording's end.
    done_s: float
    elapsed_s: Array
    #: The time outside temp I/O.
    rest_s: Array
    #: By op: bytes of the whole, those of it that are to come, and what a byte takes; of an op that
    #: was not seen it is a guess.
    bytes: Mapping[str, Array]
    coming: Mapping[str, Array]
    io_s_per_byte: Mapping[str, float]
    #: Ops that were seen.
    seen: Collection[str]
    #: Where each figure is from: ``written``, ``read`` and ``elapsed``.
    sources: Mapping[str, str]
    #: By op bytes that the recording holds.
    recorded: Mapping[str, float]
    #: Seconds of latency, of all threads together, for one of elapsed time.
    overlap: float
    #: What was given and is not used, and why.
    unused: Sequence[str]
    #: Whether no previous run gave the time outside temp I/O.
    guessed: bool
    #: Whether its time was told: operations that were not recorded take what then is left of it.
    timed: bool

    def whole_s(self, loads: Sequence[Load]) -> float:
        """Elapsed time of the whole query: what lies outside temp I/O, and its ``loads``."""
        return max(float(np.median(self.rest_s)) + self._io_s(loads), self.done_s)

    def _io_s(self, loads: Sequence[Load]) -> float:
        """Elapsed time that loads take."""
        return sum(load.total_s for load in loads) / self.overlap

    def whole_bytes(self, op: str) -> float:
        """Bytes that it moves."""
        return float(np.median(self.bytes[op]))

    def done_bytes(self, op: str) -> float:
        """Bytes that it has moved by the recording's end."""
        return float(np.median(self.bytes[op] - self.coming[op]))

    def loads(self, recorded: Sequence[Load]) -> list[Load]:
        """Those of the whole, from those recorded; an op that was not seen is like the other."""
        results = []
        for op in sorted(self.bytes):
            was_seen = op in self.seen
            alike = [load for load in recorded if (load.op == op) == was_seen]
            moved = sum(similar.bytes for similar in alike)
            times = self.whole_bytes(op) / max(moved, 1)
            for load in alike:
                count, size = round(times * load.count), round(times * load.bytes)
                if count:
                    elapsed_s = size * self.io_s_per_byte[op]
                    took_s = times * load.total_s if was_seen else self.overlap * elapsed_s
                    results.append(replace(load, op=op, count=count, bytes=size, total_s=took_s))
        slower = self._slower(self._io_s(results))
        results = [replace(load, total_s=slower * load.total_s) for load in results]
        return sorted(results, key=lambda load: (load.op, load.size_class_bytes))

    def _slower(self, io_s: float) -> float:
        """How much longer operations of the whole take than those recorded, which take ``io_s``."""
        if not self.timed or io_s <= 0:
            return 1.0
        left_s = float(np.median(self.elapsed_s)) - float(np.median(self.rest_s))
        return min(max(left_s / io_s, 1 / SLOWER_MOST), SLOWER_MOST)

    def factors(self) -> Mapping[str, Array]:
        """By op draws of its bytes over their median."""
        return {op: drawn / max(self.whole_bytes(op), 1.0) for op, drawn in self.bytes.items()}

    def rest_off_s(self) -> Array:
        """Draws of the time outside temp I/O, less their median."""
        return self.rest_s - float(np.median(self.rest_s))

    def summary(self) -> Remaining:
        """What a forecast tells of it."""
        left_s = np.maximum(self.elapsed_s - self.done_s, 0)
        return Remaining(
            done_s=self.done_s,
            reads_bytes=self._left_bytes("read", self.sources["read"]),
            writes_bytes=self._left_bytes("write", self.sources["written"]),
            elapsed_s=_quantity(left_s, self.sources["elapsed"]),
            unused=list(self.unused),
        )

    def _left_bytes(self, op: str, source: str) -> RemainingQuantity:
        left = _quantity(self.coming[op], source)
        return replace(left, done=self.done_bytes(op), recorded=self.recorded[op])


def _quantity(drawn: Array, source: str) -> RemainingQuantity:
    low, centre, high = (float(q) for q in np.quantile(drawn, [0.05, 0.5, 0.95]))
    return RemainingQuantity(low=low, centre=centre, high=high, source=source)


#: Draws before those that agree with the elapsed time are picked out of them.
CANDIDATES = 10 * DRAWS
#: Of bytes written, how many are read in all: some queries end early, some read twice.
READ_SPREAD = 0.08
#: What passes with a byte to come may be more or less than it was; and of an op that was not seen,
#: where the other one stands for it (standard deviations of the logarithm).
IO_SPREAD, REST_SPREAD = 0.08, 0.5
UNSEEN_IO_SPREAD, UNSEEN_REST_SPREAD = 1.0, 0.7
#: Writes to come, over those done, where nothing tells: spread of the logarithm.
UNKNOWN_SPREAD = 1.5
#: How likely a query that no longer writes will write again, where nothing tells how much is
#: written in all.
AGAIN = 0.5
#: The time before outside temp I/O, where CPU time tells it, is off by so much; it is never less
#: than this share of it.
REST_BEFORE_SPREAD, LEAST = 0.35, 0.02
#: An op of which so much of all writes was done before the recording: how long it took follows from
#: that, and is no more than so many times as much or less as the other takes.
PASSED_MIN, UNLIKE = 0.1, 20.0
#: Of the elapsed time, what may come after the last temp I/O.
TAIL = 0.03
#: Fewer draws than this agree with what is given: then it and what was seen contradict each other.
AGREEING_MIN = 50
#: A time that is given is taken to be no more than so many standard deviations longer.
ESTIMATE_MOST = 2.0


def extrapolate(
    progress: Progress, estimates: Sequence[Estimate], unused: Sequence[str] = ()
) -> RemainingWork | str:
    """Why there is none, in words; empty where nothing tells the whole."""
    by = {
        quantity: [estimate for estimate in estimates if estimate.quantity == quantity]
        for quantity in get_args(Quantity)
    }
    if by["written"]:
        # What is yet to come by the files alone may be followed by more.
        by["writes"] = []
    if not by["written"] and not by["writes"] and not by["elapsed"]:
        return ""
    draws = np.random.default_rng(0)
    drawn = _drawn(progress, by, draws)
    rest_s, elapsed_s = drawn.rest_s, np.maximum(drawn.rest_s + drawn.io_s, progress.done_s)
    picked = draws.integers(0, CANDIDATES, DRAWS)
    if by["elapsed"]:
        pooled = pool(by["elapsed"])
        agreeing = _agreeing(elapsed_s, pooled, draws)
        fits = _with_room(drawn, pooled, draws) if agreeing is None else agreeing
        if fits is None:
            reason = _too_short(pooled, drawn, by)
            if any(estimate.source == ELAPSED for estimate in by["elapsed"]):
                return reason
            others = [estimate for estimate in estimates if estimate.quantity != "elapsed"]
            return extrapolate(progress, others, [*unused, reason]) or reason
        picked = fits
        elapsed_draws_s = np.maximum(pooled.drawn(draws.standard_normal(DRAWS)), progress.done_s)
        if agreeing is not None:
            rest_s[picked] *= elapsed_draws_s / elapsed_s[picked]
        else:
            unused = [*unused, *_longer(pooled, float(np.median(elapsed_s)), by)]
            rest_s[picked] = np.maximum(elapsed_draws_s - drawn.io_s[picked], drawn.least_s[picked])
        elapsed_s[picked] = elapsed_draws_s
    moved = drawn.moved
    return RemainingWork(
        done_s=progress.done_s,
        elapsed_s=elapsed_s[picked],
        rest_s=rest_s[picked],
        bytes={op: (moved.done[op] + moved.coming[op])[picked] for op in OPS},
        coming={op: moved.coming[op][picked] for op in OPS},
        io_s_per_byte=drawn.io_s_per_byte,
        seen=progress.io_s_per_byte.keys(),
        sources=_sources(by),
        recorded=progress.bytes,
        overlap=progress.overlap,
        unused=unused,
        guessed=not by["rest"],
        timed=bool(by["elapsed"]),
    )


@dataclass(frozen=True)
class _Drawn:
    """Draws of the whole, whatever is given of its elapsed time."""

    moved: "_Moved"
    #: The time outside temp I/O, and in it.
    rest_s: Array
    io_s: Array
    #: The time outside temp I/O by the recording's end, or what a previous run tells of all of it.
    least_s: Array
    io_s_per_byte: Mapping[str, float]


def _drawn(
    progress: Progress, by: Mapping[str, Sequence[Estimate]], draws: np.random.Generator
) -> _Drawn:
    moved = _moved_bytes(progress, by, draws)
    passed_s, rates = _passed(progress, moved, draws)
    rest_s, io_s = passed_s, progress.done_s - passed_s
    for op, rate in rates.items():
        rest_s = rest_s + moved.coming[op] * rate.rest_s
        io_s = io_s + moved.coming[op] * rate.io_s
    rest_s = rest_s + TAIL * progress.done_s * np.abs(draws.standard_normal(CANDIDATES))
    if by["rest"]:
        # No less than has passed already.
        rest_s = pool(by["rest"]).drawn(draws.standard_normal(CANDIDATES))
        rest_s = np.maximum(rest_s, progress.rest_s)
        passed_s = rest_s.copy()
    each_s = {op: float(np.median(rate.io_s)) for op, rate in rates.items()}
    return _Drawn(moved, rest_s, io_s, passed_s, each_s)


@dataclass(frozen=True)
class _Moved:
    """Draws of bytes by op: by the recording's end, and to come."""

    done: Mapping[str, Array]
    coming: Mapping[str, Array]


def _moved_bytes(
    progress: Progress, by: Mapping[str, Sequence[Estimate]], draws: np.random.Generator
) -> _Moved:
    """What lies unread and what is written yet will be read; what is neither was read before."""
    normal, uniform = draws.standard_normal((4, CANDIDATES)), draws.uniform(0, 1, (2, CANDIDATES))
    least = max(
        progress.unread.written_since + progress.unread.held_before, progress.bytes["write"]
    )
    sooner = max(progress.done("write") - least, 0.0)
    done = least + sooner * np.exp(progress.before_error * normal[0])
    pooled = pool(by["written"]) if by["written"] else None
    goes_on = uniform[0] < (1.0 if "write" in progress.doing else _again(pooled, progress))
    if pooled is not None:
        whole = np.maximum(pooled.drawn(normal[1]), least)
        writes = np.maximum(whole - done, 0.0) * goes_on
        # What nothing follows is the whole: by both, each as sure as it is.
        sure = _weight(progress.before_error, hypot(*pooled.spreads) / 2**0.5)
        all_done = np.maximum(done, 1.0) ** (1 - sure) * np.maximum(whole, 1.0) ** sure
        done = np.where(writes > 0, done, np.maximum(all_done, least))
    elif by["writes"] and not by["elapsed"]:
        writes = pool(by["writes"]).drawn(normal[1])
    else:
        writes = done * np.exp(UNKNOWN_SPREAD * normal[1]) * goes_on
    unread = np.minimum(progress.unread.drawn(uniform[1]), done)
    reads = (unread + writes) * np.exp(READ_SPREAD * normal[2])
    read = np.maximum(done - unread, progress.bytes["read"])
    if by["read"]:
        whole = pool(by["read"]).drawn(normal[3])
        reads = np.minimum(reads, np.maximum(whole - progress.bytes["read"], 0.0))
        read = np.maximum(whole - reads, progress.bytes["read"])
    return _Moved({"write": done, "read": read}, {"write": writes, "read": reads})


def _again(estimate: Estimate | None, progress: Progress) -> float:
    """How likely a query that no longer writes will write again (Bayes).

    The further what was written is below what is given of the whole, the less likely that is all.
    """
    if estimate is None:
        return AGAIN
    spread = hypot(*estimate.spreads, progress.before_error) / 2**0.5
    off = max(log(estimate.centre / max(progress.done("write"), 1.0)), 0.0) / spread
    return AGAIN / (AGAIN + (1 - AGAIN) * exp(-(off**2) / 2))


def _weight(seen_weight: float, other: float) -> float:
    """Of the other of two figures, by their spreads."""
    return seen_weight**2 / (seen_weight**2 + other**2) if seen_weight else 0.0


@dataclass(frozen=True)
class _Rate:
    """Draws of the elapsed time with a byte: of its operation, and beside it."""

    io_s: Array
    rest_s: Array


def _passed(
    progress: Progress, moved: _Moved, draws: np.random.Generator
) -> tuple[Array, Mapping[str, _Rate]]:
    """Time outside temp I/O by the recording's end, and by op what a byte takes.

    What an op that was not seen took follows from the time before, less what else it was.
    """
    before = {op: np.maximum(moved.done[op] - progress.bytes[op], 0.0) for op in OPS}
    known = {op: rate * _off(IO_SPREAD, draws) for op, rate in progress.io_s_per_byte.items()}
    io_s = sum((before[op] * rate for op, rate in known.items()), np.zeros(CANDIDATES))
    rest_s = None
    unseen = [op for op in OPS if op not in known]
    untold = any(np.median(before[op]) > PASSED_MIN * progress.done("write") for op in unseen)
    # Where the time of both ops is known, what is left of the time before tells it best.
    if progress.rest_before_s is not None and untold:
        rest_s = np.minimum(
            progress.rest_before_s * _off(REST_BEFORE_SPREAD, draws), progress.before_s
        )
    passed = dict[str, Array]()
    for op in OPS:
        if op in known:
            passed[op] = known[op]
            continue
        [like] = known
        passed[op] = known[like] * _off(UNSEEN_IO_SPREAD, draws)
        if rest_s is not None:
            left_s = np.maximum(progress.before_s - rest_s - io_s, LEAST * progress.before_s)
            least, most = known[like] / UNLIKE, known[like] * UNLIKE
            passed[op] = np.clip(left_s / np.maximum(before[op], 1.0), least, most)
        io_s = io_s + before[op] * passed[op]
    if rest_s is None:
        rest_s = np.maximum(progress.before_s - io_s, LEAST * progress.before_s)
        if progress.rest_before_s is not None:
            by_cpu_s = progress.rest_before_s * _off(REST_BEFORE_SPREAD, draws)
            spreads_s = (
                REST_BEFORE_SPREAD * progress.rest_before_s,
                IO_SPREAD * float(np.median(io_s)),
            )
            sure = _weight(*spreads_s)
            rest_s = np.minimum(rest_s * sure + by_cpu_s * (1 - sure), progress.before_s)
    rest_s = rest_s + progress.rest_s
    # An op that was not seen has no more beside it than the other, or than there was in all.
    spilling_s = np.maximum(rest_s - progress.ahead_s, LEAST * rest_s)
    in_all = spilling_s / np.maximum(moved.done["read"] + moved.done["write"], 1.0)
    rates = {}
    for op in OPS:
        seen_rate = progress.rest_s_per_byte.get(op)
        if seen_rate is None:
            [like_s] = progress.rest_s_per_byte.values()
            each_s = np.minimum(max(like_s, 0.0), in_all)
            # Nor less than what has passed, spread over all that is written.
            written = np.maximum(moved.done["write"] + moved.coming["write"], 1.0)
            each_s = np.maximum(each_s, rest_s / written)
        else:
            each_s = np.maximum(seen_rate, LEAST * in_all)
        spread = UNSEEN_REST_SPREAD if seen_rate is None else REST_SPREAD
        rates[op] = _Rate(passed[op], each_s * _off(spread, draws))
    return rest_s, rates


def _off(spread: float, draws: np.random.Generator) -> Array:
    """Log-normal factors around 1."""
    return np.asarray(np.exp(spread * draws.standard_normal(CANDIDATES)))


def _agreeing(
    elapsed_s: Array, estimate: Estimate, draws: np.random.Generator
) -> NDArray[np.int64] | None:
    """Those of the draws whose elapsed time is about what is given; None for hardly any."""
    spread = max(*estimate.spreads, 0.03)
    off = np.log(elapsed_s / estimate.centre) / spread
    weight = np.exp(-(off**2) / 2)
    if weight.sum() ** 2 < AGREEING_MIN * max((weight**2).sum(), 1e-300):
        return None
    return draws.choice(len(weight), DRAWS, p=weight / weight.sum())


def _with_room(
    drawn: _Drawn, estimate: Estimate, draws: np.random.Generator
) -> NDArray[np.int64] | None:
    """Those of the draws whose temp I/O, and what passes beside it, leave some of a longer time.

    None for hardly any.
    """
    most_s = estimate.centre * exp(ESTIMATE_MOST * estimate.spreads[1])
    fit = np.flatnonzero(drawn.io_s + drawn.least_s <= most_s)
    return draws.choice(fit, DRAWS) if len(fit) >= AGREEING_MIN else None


def _longer(
    estimate: Estimate, expected_s: float, by: Mapping[str, Sequence[Estimate]]
) -> list[str]:
    """What a time that is given leaves unused, in words: it is longer than what is expected."""
    if estimate.centre < expected_s:
        return []
    known = f" of {pool(by['rest']).source}" if by["rest"] else " so far"
    time = format_duration(estimate.centre)
    return [f"the time outside temp I/O{known}: {estimate.source} ({time}) leaves far more for it"]


def _too_short(estimate: Estimate, drawn: _Drawn, by: Mapping[str, Sequence[Estimate]]) -> str:
    """What contradicts a time that is given, in words."""
    known = [pool(by[quantity]).source for quantity in ("written", "rest") if by[quantity]]
    sources = f", by {' and '.join(dict.fromkeys(known))}" if known else ""
    io_s, least_s = float(np.median(drawn.io_s)), float(np.median(drawn.least_s))
    return (
        f"{estimate.source}: {format_duration(estimate.centre)} is too short for temp I/O of about "
        f"{format_duration(io_s)} and {format_duration(least_s)} beside it{sources}"
    )


def _sources(by: Mapping[str, Sequence[Estimate]]) -> Mapping[str, str]:
    """Where each figure is from, in words."""
    sources = {quantity: pool(those).source for quantity, those in by.items() if those}
    elapsed = sources.get("elapsed")
    written = sources.get("written")
    if written is None:
        written = f"{elapsed}, at the rates seen" if elapsed else sources["writes"]
    read = sources.get("read") or ("the remaining writes" if written != FILES_SOURCE else None)
    rest = sources.get("rest")
    rates = "the remaining bytes, at the time each took"
    return {
        "written": written,
        "read": FILES_SOURCE if read is None else f"{FILES_SOURCE}; {read}",
        "elapsed": elapsed or (rates if rest is None else f"{rest}; {rates}"),
    }
