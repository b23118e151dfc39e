"""What is known of a storage, in words: its origin, its limits, what it does at once."""

from collections.abc import Iterator

from spillcast.storage import Limit, Storage
from spillcast.storage.description import Ability
from spillcast.units import format_bytes

#: The size for which operations a second are said: that of a page.
SMALL_BYTES = 4096
_KINDS = (
    ("read", False, "random reads"),
    ("read", True, "sequential reads"),
    ("write", False, "random writes"),
    ("write", True, "sequential writes"),
)


def origin_words(storage: Storage) -> str:
    """Where the figures come from."""
    facts = storage.facts
    where = f" on {facts['directory']}" if "directory" in facts else ""
    return storage.source.words.format(like=facts.get("like", "a recording"), where=where)


def provenance_words(storage: Storage) -> str | None:
    """When, where and with what it was measured, as far as that is known."""
    known = storage.provenance
    if known is None:
        return None
    when = (known.measured_at or "")[:16].replace("T", " ")
    parts = [
        f"measured at {when}" if when else None,
        f"on host {known.host}" if known.host else None,
        known.kernel and f"kernel {known.kernel}",
        known.device_name,
        known.mount_point and f"{known.filesystem} at {known.mount_point} ({known.mount_options})",
        known.spillcast and f"spillcast {known.spillcast}",
    ]
    return ", ".join(part for part in parts if part) or None


def limits_words(storage: Storage) -> str | None:
    """``3,000 operations/s, 125 MiB/s``; None where no limits are stated."""
    parts = [part for limit in storage.limits for part in _limit_words(limit)]
    if storage.servers is not None:
        parts.append(f"{storage.servers:,} at once")
    return ", ".join(parts) or None


def _limit_words(limit: Limit) -> Iterator[str]:
    """Operations a second, then bytes a second, each once where it holds for all."""
    costs = [limit.cost_ns(op, SMALL_BYTES, sequential=s) for op, s, _ in _KINDS]
    bases = [getattr(limit, f"{op}_{'sequential' if s else 'random'}_ns") for op, s, _ in _KINDS]
    large = f" of up to {format_bytes(limit.operation_bytes)}" if limit.operation_bytes else ""
    if any(bases):
        if len(set(costs)) == 1:
            yield f"{1e9 / costs[0]:,.0f} operations/s{large}{_burst(limit, costs[0], 1)}"
        else:
            for cost, base, (_, _, words) in zip(costs, bases, _KINDS, strict=True):
                if base:
                    yield f"{1e9 / cost:,.0f} {words}/s{large}"
    read_ns, write_ns = limit.read_ns_per_byte, limit.write_ns_per_byte
    if read_ns == write_ns != 0:
        yield f"{format_bytes(1e9 / read_ns)}/s" + ("" if any(bases) else _burst(limit, 1, read_ns))
    else:
        for per_byte, word in ((read_ns, "read"), (write_ns, "written")):
            if per_byte:
                yield f"{format_bytes(1e9 / per_byte)}/s {word}"


def _burst(limit: Limit, cost_ns: float, ns_per_byte: float) -> str:
    """What goes at once, where it is more than a second's worth."""
    if limit.burst_ns <= 1e9:
        return ""
    if ns_per_byte == 1:
        return f" after {limit.burst_ns / cost_ns:,.0f} at once"
    return f" after {format_bytes(limit.burst_ns / ns_per_byte)} at once"


def ability_words(op: str, ability: Ability) -> str:
    """Servers and ceilings of an op, and how far off latencies between the measured ones are.

    Empty where nothing of it is known.
    """
    parts = []
    if ability.servers is not None:
        parts.append(f"about {ability.servers:.3g} served at once")
    if ability.operations_per_s is not None:
        parts.append(f"at most {_three_digits(ability.operations_per_s)} small ones/s")
    if ability.bandwidth_bytes_per_s is not None:
        parts.append(f"at most {format_bytes(ability.bandwidth_bytes_per_s)}/s")
    if ability.error_median is not None and ability.error_max is not None:
        parts.append(
            f"what lies between the measured is known to within {100 * ability.error_median:.1f} % "
            f"in the middle, {100 * ability.error_max:.0f} % at worst (each figure predicted from "
            "the others)"
        )
    return f"{op}s: {'; '.join(parts)}" if parts else ""


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"
