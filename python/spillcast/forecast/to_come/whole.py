"""The whole query from the part that was seen: all that tells of it, drawn together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.sum.interval import DRAWS
from spillcast.forecast.to_come.said import About, QuantityEstimate, together
from spillcast.forecast.to_come.seen import Seen
from spillcast.forecast.to_come.spill import SOURCE as FILES
from spillcast.forecast.to_come.to_come import ToCome
from spillcast.forecast.to_come.told import ELAPSED
from spillcast.recording.event_names import OPS
from spillcast.units import format_duration

Array = NDArray[np.float64]
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
#: Fewer draws than this agree with what is told: then it and what was seen contradict each other.
AGREEING_MIN = 50
#: A time that is told is taken to be no more than so many standard deviations longer.
ESTIMATE_MOST = 2.0


def whole_of(
    seen: Seen, estimates: Sequence[QuantityEstimate], unused: Sequence[str] = ()
) -> ToCome | str:
    """Why there is none, in words; empty where nothing tells the whole."""
    by = {
        quantity: [statement for statement in estimates if statement.about == quantity]
        for quantity in get_args(About)
    }
    if by["written"]:
        # What is yet to come by the files alone may be followed by more.
        by["writes"] = []
    if not by["written"] and not by["writes"] and not by["elapsed"]:
        return ""
    draws = np.random.default_rng(0)
    drawn = _drawn(seen, by, draws)
    rest_s, elapsed_s = drawn.rest_s, np.maximum(drawn.rest_s + drawn.io_s, seen.done_s)
    picked = draws.integers(0, CANDIDATES, DRAWS)
    if by["elapsed"]:
        pooled = together(by["elapsed"])
        agreeing = _agreeing(elapsed_s, pooled, draws)
        fits = _with_room(drawn, pooled, draws) if agreeing is None else agreeing
        if fits is None:
            reason = _too_short(pooled, drawn, by)
            if any(statement.source == ELAPSED for statement in by["elapsed"]):
                return reason
            others = [statement for statement in estimates if statement.about != "elapsed"]
            return whole_of(seen, others, [*unused, reason]) or reason
        picked = fits
        elapsed_draws_s = np.maximum(pooled.drawn(draws.standard_normal(DRAWS)), seen.done_s)
        if agreeing is not None:
            rest_s[picked] *= elapsed_draws_s / elapsed_s[picked]
        else:
            unused = [*unused, *_longer(pooled, float(np.median(elapsed_s)), by)]
            rest_s[picked] = np.maximum(elapsed_draws_s - drawn.io_s[picked], drawn.least_s[picked])
        elapsed_s[picked] = elapsed_draws_s
    moved = drawn.moved
    return ToCome(
        seen.done_s,
        elapsed_s[picked],
        rest_s[picked],
        {op: (moved.done[op] + moved.coming[op])[picked] for op in OPS},
        {op: moved.coming[op][picked] for op in OPS},
        drawn.io_s_per_byte,
        seen.io_s_per_byte.keys(),
        _sources(by),
        seen.bytes,
        seen.overlap,
        unused,
        not by["rest"],
        bool(by["elapsed"]),
    )


@dataclass(frozen=True)
class _Drawn:
    """Draws of the whole, whatever is told of its elapsed time."""

    moved: "_Moved"
    #: The time outside temp I/O, and in it.
    rest_s: Array
    io_s: Array
    #: The time outside temp I/O by the recording's end, or what a previous run tells of all of it.
    least_s: Array
    io_s_per_byte: Mapping[str, float]


def _drawn(
    seen: Seen, by: Mapping[str, Sequence[QuantityEstimate]], draws: np.random.Generator
) -> _Drawn:
    moved = _moved(seen, by, draws)
    passed_s, rates = _passed(seen, moved, draws)
    rest_s, io_s = passed_s, seen.done_s - passed_s
    for op, rate in rates.items():
        rest_s = rest_s + moved.coming[op] * rate.rest_s
        io_s = io_s + moved.coming[op] * rate.io_s
    rest_s = rest_s + TAIL * seen.done_s * np.abs(draws.standard_normal(CANDIDATES))
    if by["rest"]:
        # No less than has passed already.
        rest_s = together(by["rest"]).drawn(draws.standard_normal(CANDIDATES))
        rest_s = np.maximum(rest_s, seen.rest_s)
        passed_s = rest_s.copy()
    each_s = {op: float(np.median(rate.io_s)) for op, rate in rates.items()}
    return _Drawn(moved, rest_s, io_s, passed_s, each_s)


@dataclass(frozen=True)
class _Moved:
    """Draws of bytes by op: by the recording's end, and to come."""

    done: Mapping[str, Array]
    coming: Mapping[str, Array]


def _moved(
    seen: Seen, by: Mapping[str, Sequence[QuantityEstimate]], draws: np.random.Generator
) -> _Moved:
    """What lies unread and what is written yet will be read; what is neither was read before."""
    normal, uniform = draws.standard_normal((4, CANDIDATES)), draws.uniform(0, 1, (2, CANDIDATES))
    least = max(seen.unread.written_since + seen.unread.held_before, seen.bytes["write"])
    sooner = max(seen.done("write") - least, 0.0)
    done = least + sooner * np.exp(seen.before_error * normal[0])
    pooled = together(by["written"]) if by["written"] else None
    goes_on = uniform[0] < (1.0 if "write" in seen.doing else _again(pooled, seen))
    if pooled is not None:
        whole = np.maximum(pooled.drawn(normal[1]), least)
        writes = np.maximum(whole - done, 0.0) * goes_on
        # What nothing follows is the whole: by both, each as sure as it is.
        sure = _weight(seen.before_error, hypot(*pooled.spreads) / 2**0.5)
        all_done = np.maximum(done, 1.0) ** (1 - sure) * np.maximum(whole, 1.0) ** sure
        done = np.where(writes > 0, done, np.maximum(all_done, least))
    elif by["writes"] and not by["elapsed"]:
        writes = together(by["writes"]).drawn(normal[1])
    else:
        writes = done * np.exp(UNKNOWN_SPREAD * normal[1]) * goes_on
    unread = np.minimum(seen.unread.drawn(uniform[1]), done)
    reads = (unread + writes) * np.exp(READ_SPREAD * normal[2])
    read = np.maximum(done - unread, seen.bytes["read"])
    if by["read"]:
        whole = together(by["read"]).drawn(normal[3])
        reads = np.minimum(reads, np.maximum(whole - seen.bytes["read"], 0.0))
        read = np.maximum(whole - reads, seen.bytes["read"])
    return _Moved({"write": done, "read": read}, {"write": writes, "read": reads})


def _again(estimate: QuantityEstimate | None, seen: Seen) -> float:
    """How likely a query that no longer writes will write again (Bayes).

    The further what was written is below what is told of the whole, the less likely that is all.
    """
    if estimate is None:
        return AGAIN
    spread = hypot(*estimate.spreads, seen.before_error) / 2**0.5
    off = max(log(estimate.centre / max(seen.done("write"), 1.0)), 0.0) / spread
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
    seen: Seen, moved: _Moved, draws: np.random.Generator
) -> tuple[Array, Mapping[str, _Rate]]:
    """Time outside temp I/O by the recording's end, and by op what a byte takes.

    What an op that was not seen took follows from the time before, less what else it was.
    """
    before = {op: np.maximum(moved.done[op] - seen.bytes[op], 0.0) for op in OPS}
    known = {op: rate * _off(IO_SPREAD, draws) for op, rate in seen.io_s_per_byte.items()}
    io_s = sum((before[op] * rate for op, rate in known.items()), np.zeros(CANDIDATES))
    rest_s = None
    unseen = [op for op in OPS if op not in known]
    untold = any(np.median(before[op]) > PASSED_MIN * seen.done("write") for op in unseen)
    # Where the time of both ops is known, what is left of the time before tells it best.
    if seen.rest_before_s is not None and untold:
        rest_s = np.minimum(seen.rest_before_s * _off(REST_BEFORE_SPREAD, draws), seen.before_s)
    passed = dict[str, Array]()
    for op in OPS:
        if op in known:
            passed[op] = known[op]
            continue
        [like] = known
        passed[op] = known[like] * _off(UNSEEN_IO_SPREAD, draws)
        if rest_s is not None:
            left_s = np.maximum(seen.before_s - rest_s - io_s, LEAST * seen.before_s)
            least, most = known[like] / UNLIKE, known[like] * UNLIKE
            passed[op] = np.clip(left_s / np.maximum(before[op], 1.0), least, most)
        io_s = io_s + before[op] * passed[op]
    if rest_s is None:
        rest_s = np.maximum(seen.before_s - io_s, LEAST * seen.before_s)
        if seen.rest_before_s is not None:
            by_cpu_s = seen.rest_before_s * _off(REST_BEFORE_SPREAD, draws)
            spreads_s = REST_BEFORE_SPREAD * seen.rest_before_s, IO_SPREAD * float(np.median(io_s))
            sure = _weight(*spreads_s)
            rest_s = np.minimum(rest_s * sure + by_cpu_s * (1 - sure), seen.before_s)
    rest_s = rest_s + seen.rest_s
    # An op that was not seen has no more beside it than the other, or than there was in all.
    spilling_s = np.maximum(rest_s - seen.ahead_s, LEAST * rest_s)
    in_all = spilling_s / np.maximum(moved.done["read"] + moved.done["write"], 1.0)
    rates = {}
    for op in OPS:
        seen_rate = seen.rest_s_per_byte.get(op)
        if seen_rate is None:
            [like_s] = seen.rest_s_per_byte.values()
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
    elapsed_s: Array, estimate: QuantityEstimate, draws: np.random.Generator
) -> NDArray[np.int64] | None:
    """Those of the draws whose elapsed time is about what is told; None for hardly any."""
    spread = max(*estimate.spreads, 0.03)
    off = np.log(elapsed_s / estimate.centre) / spread
    weight = np.exp(-(off**2) / 2)
    if weight.sum() ** 2 < AGREEING_MIN * max((weight**2).sum(), 1e-300):
        return None
    return draws.choice(len(weight), DRAWS, p=weight / weight.sum())


def _with_room(
    drawn: _Drawn, estimate: QuantityEstimate, draws: np.random.Generator
) -> NDArray[np.int64] | None:
    """Those of the draws whose temp I/O, and what passes beside it, leave some of a longer time.

    None for hardly any.
    """
    most_s = estimate.centre * exp(ESTIMATE_MOST * estimate.spreads[1])
    fit = np.flatnonzero(drawn.io_s + drawn.least_s <= most_s)
    return draws.choice(fit, DRAWS) if len(fit) >= AGREEING_MIN else None


def _longer(
    estimate: QuantityEstimate, expected_s: float, by: Mapping[str, Sequence[QuantityEstimate]]
) -> list[str]:
    """What a time that is told leaves unused, in words: it is longer than what is expected."""
    if estimate.centre < expected_s:
        return []
    known = f" of {together(by['rest']).source}" if by["rest"] else " so far"
    time = format_duration(estimate.centre)
    return [f"the time outside temp I/O{known}: {estimate.source} ({time}) leaves far more for it"]


def _too_short(
    estimate: QuantityEstimate, drawn: _Drawn, by: Mapping[str, Sequence[QuantityEstimate]]
) -> str:
    """What contradicts a time that is told, in words."""
    known = [together(by[quantity]).source for quantity in ("written", "rest") if by[quantity]]
    sources = f", by {' and '.join(dict.fromkeys(known))}" if known else ""
    io_s, least_s = float(np.median(drawn.io_s)), float(np.median(drawn.least_s))
    return (
        f"{estimate.source}: {format_duration(estimate.centre)} is too short for temp I/O of about "
        f"{format_duration(io_s)} and {format_duration(least_s)} beside it{sources}"
    )


def _sources(by: Mapping[str, Sequence[QuantityEstimate]]) -> Mapping[str, str]:
    """Where each figure is from, in words."""
    sources = {quantity: together(those).source for quantity, those in by.items() if those}
    elapsed = sources.get("elapsed")
    written = sources.get("written")
    if written is None:
        written = f"{elapsed}, at the rates seen" if elapsed else sources["writes"]
    read = sources.get("read") or ("the remaining writes" if written != FILES else None)
    rest = sources.get("rest")
    rates = "the remaining bytes, at the time each took"
    return {
        "written": written,
        "read": FILES if read is None else f"{FILES}; {read}",
        "elapsed": elapsed or (rates if rest is None else f"{rest}; {rates}"),
    }
