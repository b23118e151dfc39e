"""What weakens a forecast from Oracle's evidence, said in words."""

from collections.abc import Sequence

from spillcast.evidence.oracle.block_size import BlockSize
from spillcast.evidence.oracle.statistics import TempOnFlash
from spillcast.forecast.assumptions import AMPLIFIED, FLASH_S, NEW_SHARE, SERVED
from spillcast.forecast.oracle.events import TraceEvidence
from spillcast.forecast.oracle.evidence import OracleEvidence
from spillcast.forecast.oracle.parts import Part, Target
from spillcast.forecast.result import Warned
from spillcast.forecast.storage_warnings import about_measuring, about_provenance
from spillcast.storage import Storage
from spillcast.storage.memory import IN_MEMORY
from spillcast.storage.source import ASSUMED
from spillcast.units import format_bytes, format_count, format_duration


def warn(
    target: Target,
    parts: Sequence[Part],
    evidence: OracleEvidence,
    whole_s: float,
    rest_kept: str | None,
) -> list[Warned]:
    """Everything a reader of the number should know."""
    traces, ash = evidence.traces, evidence.ash
    warnings = _served_by_flash(evidence.flash)
    warnings += [Warned("ash", note) for note in (ash.notes if ash is not None else [])]
    temp = [part.baseline for part in parts if part.baseline.event.endswith(" temp")]
    if temp and temp[0].latency_s < FLASH_S:
        text = (
            f"{temp[0].event} takes {format_duration(temp[0].latency_s)} here: already flash, or "
            "cached; on Exadata the flash cache may serve temp, so moving it gains little"
        )
        warnings.append(Warned("already-fast", text))
    for part in parts:
        warnings += _about_gain(part, target)
    if target.storage is not None:
        warnings += _about_figures(target.storage, evidence.block)
        warnings += about_measuring(target.storage.facts)
        warnings += about_provenance(target.storage)
    elif target.traces is None:
        warnings += [Warned(*warning) for warning in ASSUMED.warnings]
    else:
        warnings += _new_events(target.traces, traces)
    if ash is None and traces is not None and traces.elapsed_s < 0.9 * whole_s:
        text = (
            f"the trace covers {format_duration(traces.elapsed_s)} of {format_duration(whole_s)}: "
            "the rest is assumed to have the same mix; ASH of the whole run would show it"
        )
        warnings.append(Warned("part", text))
    if traces is not None and ash is None and traces.sessions_s > 1.05 * traces.elapsed_s:
        text = "sessions ran in parallel: each is assumed to have its share of their waits"
        warnings.append(Warned("threads", text))
    if rest_kept is not None:
        text = f"the time outside the boosted events is assumed unchanged: {rest_kept}"
        warnings.append(Warned("rest-kept", text))
    return warnings + _about_files([t for t in (traces, target.traces) if t is not None])


def _about_figures(storage: Storage, block: BlockSize) -> list[Warned]:
    """Where no operation was replayed, and how their sizes are known."""
    size, warnings = format_bytes(block.bytes), []
    if "like" not in storage.facts:
        text = f"{storage.name} was not probed with this trace"
        text += (
            f": blocks are {size}, by {block.known_from}" if block.known_from is not None else ""
        )
        warnings.append(Warned("not-replayed", text))
    elif not (storage.facts.get("direct") or storage.facts["filesystem"] in IN_MEMORY):
        text = (
            f"{storage.name} does not support direct I/O: the page cache served part of the probe"
        )
        warnings.append(Warned("page-cache", text))
    if block.known_from is None:
        text = (
            f"blocks are assumed to be {size}: give --block, or spillcast_parameters.csv as "
            "collect writes it"
        )
        warnings.append(Warned("block-assumed", text))
    return warnings


def _about_files(read: Sequence[TraceEvidence]) -> list[Warned]:
    """What was left out of traces."""
    warnings = [Warned("repeated", note) for traces in read for note in traces.notes]
    damaged, unmeasured = (
        sum(getattr(t, name) for t in read) for name in ("damaged", "unmeasured")
    )
    if damaged:
        text = f"{format_count(damaged, 'damaged line')} skipped"
        if unmeasured:
            text += f", {unmeasured:,} because of an impossible wait time (ela= below zero)"
        warnings.append(Warned("damaged", text))
    return warnings


def _served_by_flash(flash: TempOnFlash | None) -> list[Warned]:
    """Whether a flash cache serves temp I/O as it is: then moving temp to flash gains little."""
    shares = {} if flash is None else {"reads": flash.read, "writes": flash.write}
    return [
        Warned(
            "flash-cache",
            f"the flash cache serves {share:.0%} of temp {event} already: moving temp gains little",
        )
        for event, share in shares.items()
        if share is not None and share > SERVED
    ]


def _about_gain(part: Part, target: Target) -> list[Warned]:
    event, seen, measured = part.baseline.event, part.baseline.seen, part.target
    warnings = []
    if part.borrowed:
        text = f"{event} was not seen on {target.name}: it is assumed to speed up like the others"
        warnings.append(Warned("gain-borrowed", text))
    if part.size_ratio != 1.0 and seen is not None and measured is not None:
        text = (
            f"{event} moves {seen.blocks:.3g} blocks now and {measured.blocks:.3g} on the target: "
            "latencies are compared per block"
        )
        warnings.append(Warned("sizes", text))
    if seen is None and measured is not None and measured.blocks:
        text = (
            f"{event} moves {measured.blocks:.3g} blocks on the target and an unknown number now: "
            "a trace of the run on its current storage would show it"
        )
        warnings.append(Warned("sizes-unknown", text))
    if 1 / part.gain > AMPLIFIED:
        text = (
            f"{event} takes {1 / part.gain:.0f} times as long on the target: an error in its "
            "share of "
            "the time grows by the same factor"
        )
        warnings.append(Warned("amplified", text))
    return warnings


def _new_events(target: TraceEvidence, recorded: TraceEvidence | None) -> list[Warned]:
    """Events that only the target has: no term holds their time."""
    if recorded is None:
        return []
    waits_s = sum(event.total_s for event in target.events.values() if not event.idle) or 1.0
    return [
        Warned(
            "new-event",
            f"{name} is {event.total_s / waits_s:.1%} of the waits on {target.name} and does "
            "not occur in the baseline: the forecast does not include it",
        )
        for name, event in sorted(target.events.items())
        if name not in recorded.events and not event.idle and event.total_s > NEW_SHARE * waits_s
    ]
