"""What a previous run of the same query tells of the whole: its counts and the work beside them."""

from math import hypot

from spillcast.forecast.load import temp_load
from spillcast.forecast.threads.overlap import Threads
from spillcast.forecast.to_come.said import QuantityEstimate, about
from spillcast.forecast.to_come.seen import Seen
from spillcast.recording import Recording
from spillcast.recording.meta import NOBODY
from spillcast.recording.part import Part
from spillcast.units import format_bytes, format_duration

SOURCE, CALLS = "a previous run", "previous calls, by pg_stat_statements"
#: Runs of a query differ by so much in what they spill (standard deviation of the logarithm).
COUNTS_SPREAD = 0.03
#: And in the time outside temp I/O; of a run whose temp I/O was not timed in all.
REST_SPREAD, UNTIMED_SPREAD = 0.15, 0.3
#: Calls of a statement have other constants, and so other amounts: of one alone nothing tells by
#: how much they differ.
CALLS_SPREAD = 0.3
#: A previous run spilled so much less than was seen already that it was another query's.
LESS = 0.9
#: And took so much less outside temp I/O than this one did while it was recorded.
LESS_REST = 0.5
_MEMORY = ("work_mem", "memory_limit", "hash_mem_multiplier", "threads")


def estimates_by_history(
    history: Recording, recording: Recording, seen: Seen
) -> list[QuantityEstimate] | str:
    """What it says, or why it is not used."""
    loads = temp_load(history)
    if (reason := reason_against(history, recording)) is not None:
        return reason
    moved = {"read": 0.0, "write": 0.0}
    took_s = {"read": 0.0, "write": 0.0}
    for load in loads:
        moved[load.op] += load.bytes
        took_s[load.op] += load.total_s
    if moved["write"] < LESS * seen.bytes["write"]:
        wrote, has = format_bytes(moved["write"]), format_bytes(seen.bytes["write"])
        return f"it wrote {wrote} in all, this one {has} while it was recorded"
    calls = _calls_spread(history)
    source = SOURCE if calls is None else CALLS
    counts, rest, untimed = (
        hypot(spread, calls or 0.0) for spread in (COUNTS_SPREAD, REST_SPREAD, UNTIMED_SPREAD)
    )
    estimates = []
    if moved["write"]:
        estimates.append(about("written", moved["write"], counts, "history", source))
    if moved["read"]:
        estimates.append(about("read", moved["read"], counts, "history", source))
    if not sum(took_s.values()):
        return [*estimates, about("elapsed", history.elapsed_s, untimed, "history", source)]
    rest_s = history.elapsed_s - Threads(history, loads).of_waits * sum(took_s.values())
    if rest_s < LESS_REST * seen.rest_s:
        took, has = format_duration(max(rest_s, 0.0)), format_duration(seen.rest_s)
        return f"it took {took} outside temp I/O in all, this one {has} while it was recorded"
    if rest_s > 0:
        estimates.append(about("rest", rest_s, rest, "history", source))
    return estimates


def _calls_spread(history: Recording) -> float | None:
    """How far calls are from their mean, by so many of them; None of a single run."""
    statement = history.meta.statement
    if statement is None or statement.spread is None:
        return None
    others = max(statement.calls - 1, 0)
    variance = others * statement.spread**2 + CALLS_SPREAD**2
    return float((variance / (others + 1)) ** 0.5)


def reason_against(history: Recording, recording: Recording) -> str | None:
    """Why it is no previous run of this query with these settings; None where it may be one."""
    then, now = history.meta.engine, recording.meta.engine
    if Part.of(history.meta) is not None:
        return "it covers only part of a run itself"
    # Some evidence calls an engine by a longer name than other.
    shorter, longer = sorted((then.name, now.name), key=len)
    if NOBODY.name not in (shorter, longer) and not longer.startswith(shorter):
        return f"it is of {then.name}, this one of {now.name}"
    texts = [_text(engine) for engine in (then, now)]
    if all(texts) and texts[0] != texts[1]:
        return "it is of another query"
    for name in _MEMORY:
        before, after = (engine.settings.get(name) for engine in (then, now))
        if None not in (before, after) and str(before) != str(after):
            return f"it had {name} = {before}, this one has {after}"
    return None


def same_text(history: Recording, recording: Recording) -> bool:
    """Whether the texts of both queries are known, and alike."""
    then, now = _text(history.meta.engine), _text(recording.meta.engine)
    return bool(now) and then == now


def _text(engine: object) -> str:
    """The text of a query as far as it is known, blanks alike."""
    command = getattr(engine, "command", None)
    text = getattr(engine, "query", None) or getattr(engine, "sql", None) or " ".join(command or ())
    return " ".join(str(text).split()).rstrip(";").lower()
