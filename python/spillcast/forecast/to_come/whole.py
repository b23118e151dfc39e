"""The whole query from the part that was seen: all that tells of it, drawn together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.sum.interval import DRAWS
from spillcast.forecast.to_come.said import About, Said, together
from spillcast.forecast.to_come.seen import OPS, Seen
from spillcast.forecast.to_come.to_come import ToCome

Array = NDArray[np.float64]
#: Draws before those that agree with the elapsed time are picked out of them.
CANDIDATES = 10 * DRAWS
#: Of bytes written, how many are read in all: some queries end early, some read twice.
READ_SPREAD = 0.08
#: What passes with a byte to come may be more or less than it was; and of an op that was not seen,
#: where the other one stands for it (standard deviations of the logarithm).
RATE_SPREAD, UNSEEN_REST_SPREAD, UNSEEN_IO_SPREAD = 0.12, 0.5, 1.0
#: Writes to come, over those done, where nothing tells: spread of the logarithm.
UNKNOWN_SPREAD = 1.5
#: How likely a query that no longer writes will write again, where its time alone is told.
AGAIN = 0.5
#: Of the time that has passed, temp I/O is at most so much.
REST_LEAST = 0.98
#: Of the elapsed time, what may come after the last temp I/O.
TAIL = 0.03
#: Fewer draws than this agree with what is told: then it and what was seen contradict each other.
AGREEING_MIN = 50
FILES = "files written and not yet read"


def whole_of(seen: Seen, all_said: Sequence[Said], unused: Sequence[str] = ()) -> ToCome | None:
    """None where nothing tells the whole."""
    by = {what: [one for one in all_said if one.about == what] for what in get_args(About)}
    if by["written"]:
        # What is yet to come by the files alone may be followed by more.
        by["writes"] = []
    if not by["written"] and not by["writes"] and not by["elapsed"]:
        return None
    draws = np.random.default_rng(0)
    moved = _moved(seen, by, draws)
    rest_s, io_s = _spent(seen, moved, draws)
    for op, rate in _rates(seen).items():
        drawn = draws.standard_normal((2, CANDIDATES))
        rest_s = rest_s + moved.coming[op] * rate.rest_s * np.exp(rate.rest_spread * drawn[0])
        io_s = io_s + moved.coming[op] * rate.io_s * np.exp(rate.io_spread * drawn[1])
    rest_s = rest_s + TAIL * seen.done_s * np.abs(draws.standard_normal(CANDIDATES))
    if by["rest"]:
        rest_s = together(by["rest"]).drawn(draws.standard_normal(CANDIDATES))
    elapsed_s = np.maximum(rest_s + io_s, seen.done_s)
    picked = draws.integers(0, CANDIDATES, DRAWS)
    if by["elapsed"]:
        told = together(by["elapsed"])
        agreeing = _agreeing(elapsed_s, told, draws)
        if agreeing is None:
            unused = [*unused, "the elapsed time that is told does not fit what was seen"]
        picked = picked if agreeing is None else agreeing
        told_s = np.maximum(told.drawn(draws.standard_normal(DRAWS)), seen.done_s)
        rest_s[picked] = np.maximum(told_s - io_s[picked], 0.0)
        elapsed_s[picked] = told_s
    return ToCome(
        seen.done_s,
        elapsed_s[picked],
        rest_s[picked],
        {op: (moved.done[op] + moved.coming[op])[picked] for op in OPS},
        {op: moved.coming[op][picked] for op in OPS},
        {op: rate.io_s for op, rate in _rates(seen).items()},
        _sources(by),
        unused,
    )


@dataclass(frozen=True)
class _Moved:
    """Draws of bytes by op: by the recording's end, and to come."""

    done: Mapping[str, Array]
    coming: Mapping[str, Array]


def _moved(seen: Seen, by: Mapping[str, Sequence[Said]], draws: np.random.Generator) -> _Moved:
    """What lies unread and what is written yet will be read; what is neither was read before."""
    normal, uniform = draws.standard_normal((4, CANDIDATES)), draws.uniform(0, 1, (2, CANDIDATES))
    least = seen.bytes["write"] + seen.unread.held_before
    sooner = max(seen.done("write") - least, 0.0)
    done = least + sooner * np.exp(seen.before_error * normal[0])
    goes_on = uniform[0] < (1.0 if "write" in seen.doing else AGAIN)
    if by["written"]:
        whole = np.maximum(together(by["written"]).drawn(normal[1]), least)
        writes = np.maximum(whole - done, 0.0) * goes_on
        done = whole - writes
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


@dataclass(frozen=True)
class _Rate:
    """Elapsed time with a byte: of its operation and beside it, and how far off."""

    io_s: float
    io_spread: float
    rest_s: float
    rest_spread: float


def _rates(seen: Seen) -> Mapping[str, _Rate]:
    found = {}
    for op in OPS:
        known = op in seen.io_s_per_byte
        [like] = [op] if known else seen.io_s_per_byte
        spreads = (
            (RATE_SPREAD / 2, RATE_SPREAD) if known else (UNSEEN_IO_SPREAD, UNSEEN_REST_SPREAD)
        )
        found[op] = _Rate(
            seen.io_s_per_byte[like], spreads[0], seen.rest_s_per_byte[like], spreads[1]
        )
    return found


def _spent(seen: Seen, moved: _Moved, draws: np.random.Generator) -> tuple[Array, Array]:
    """Time outside temp I/O, and in it, by the recording's end."""
    io_s = np.zeros(CANDIDATES)
    for op, rate in _rates(seen).items():
        off = np.exp(rate.io_spread * draws.standard_normal(CANDIDATES))
        before = np.maximum(moved.done[op] - seen.bytes[op], 0.0)
        io_s = io_s + (seen.bytes[op] + before * off) * rate.io_s
    io_s = np.minimum(io_s, REST_LEAST * seen.done_s)
    return seen.done_s - io_s, io_s


def _agreeing(elapsed_s: Array, told: Said, draws: np.random.Generator) -> NDArray[np.int64] | None:
    """Those of the draws whose elapsed time is about what is told; None for hardly any."""
    spread = max(*told.spreads, 0.03)
    off = np.log(elapsed_s / told.centre) / spread
    weight = np.exp(-(off**2) / 2)
    if weight.sum() ** 2 < AGREEING_MIN * max((weight**2).sum(), 1e-300):
        return None
    return draws.choice(len(weight), DRAWS, p=weight / weight.sum())


def _sources(by: Mapping[str, Sequence[Said]]) -> Mapping[str, str]:
    """Where each figure is from, in words."""
    said = {what: together(those).source for what, those in by.items() if those}
    elapsed = said.get("elapsed")
    written = said.get("written")
    if written is None:
        written = f"{elapsed}, at the rates seen" if elapsed else said["writes"]
    read = said.get("read") or ("the writes to come" if written != FILES else None)
    rest = said.get("rest")
    rates = "the bytes to come, as long as each took"
    return {
        "written": written,
        "read": FILES if read is None else f"{FILES}; {read}",
        "elapsed": elapsed or (rates if rest is None else f"{rest}; {rates}"),
    }
