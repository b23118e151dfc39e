"""A flash cache in front of a disk, as a storage for the temp files of one recording.

The cache is simulated with the recorded offsets. Operations of each op and size then have the
latencies of flash and of the disk, in the simulated shares. Temp data is written to flash, and in
the background to the disk when it is evicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from spillcast.cache.evidence import LINE_BYTES, Requests
from spillcast.cache.rows import of_recording
from spillcast.cache.simulation import CacheOptions, simulate
from spillcast.errors import InputError, TargetInvalid, TimesUnknown
from spillcast.evidence.counts import Counts
from spillcast.recording import OPS, Recording
from spillcast.recording.schema import size_classes
from spillcast.storage.model import Estimate, Model
from spillcast.storage.observed import TempEvidence, observed
from spillcast.storage.source import source_of
from spillcast.storage.storage import Group, Limit, Storage
from spillcast.units import format_bytes, parse_bytes

FORM = "cache:flash.json+disk.json?size=2T"
#: By op and size class (bytes), share of the bytes that flash serves.
Shares = Mapping[tuple[str, int], float]


def cached(
    text: str, flash: Storage, disk: Storage, options: CacheOptions, baseline: TempEvidence
) -> Storage:
    """The storage of a cache of ``flash`` in front of ``disk`` for the I/O of ``baseline``.

    Refusal if the temp files do not fit and the recording does not show which data is reread.
    """
    recorded = observed(baseline).groups
    shares = _shares(recorded, baseline, options)
    groups = [_group(group, flash, disk, shares, baseline) for group in recorded]
    elsewhere = {key: 1 - share for key, share in shares.items()}
    limits = [*_limits(flash, groups, shares), *_limits(disk, groups, elsewhere)]
    served = sum(g.bytes * shares[g.kind] for g in groups if g.op == "read")
    reads = sum(g.bytes for g in groups if g.op == "read")
    share = served / reads if reads else 1.0
    advice = (
        f"put a cache of {format_bytes(options.size_bytes)} on {flash.name} before {disk.name}, "
        f"which would serve {share:.0%} of what is read (simulated with {options.policy})"
    )
    parts = [
        {"name": part.name, "source": part.source.name, "facts": dict(part.facts)}
        | _distance(part, recorded, served, baseline)
        for part, served in ((flash, shares), (disk, elsewhere))
    ]
    facts = {"read_share_from_flash": share, "parts": parts, "advice": [advice]}
    return Storage(text, source_of("cache", facts), groups, facts, limits)


def parse_cache(text: str, option: str) -> tuple[str, str, CacheOptions]:
    """Flash, disk and options of ``cache:FLASH+DISK?size=2T``. InputError for an invalid text."""
    parts, _, query = text.removeprefix("cache:").partition("?")
    flash, plus, disk = parts.partition("+")
    given = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    if not (flash and plus and disk) or "size" not in given or not set(given) <= {"size", "policy"}:
        raise TargetInvalid(
            f"{option} {text}: a cache has flash, a disk and a size",
            f"for example {option} '{FORM}', or with &policy=s3fifo",
        )
    options = CacheOptions(
        parse_bytes(given["size"], f"{option} {text}"),
        given.get("policy", "lru"),
        temp_writes=True,
        runs=1,
    )
    try:
        options.check()
    except InputError as error:
        raise TargetInvalid(f"{option} {text}: {error.message}", error.hint) from error
    return flash, disk, options


def _shares(groups: Sequence[Group], baseline: TempEvidence, options: CacheOptions) -> Shares:
    """By op and size class, share of the bytes that flash serves."""
    held_bytes = baseline.held_bytes
    if held_bytes <= options.size_bytes and options.policy != "bypass":
        return {g.kind: 1.0 for g in groups}
    if (
        isinstance(baseline, Counts)
        or not baseline.meta.raw.whole
        or baseline.temp_waits["offset"].null_count
    ):
        raise TimesUnknown(
            f"{baseline.path} does not show what was read again, because it does not contain every "
            "wait with its offset, and its temp files are larger than "
            f"{format_bytes(options.size_bytes)}"
        )
    rows = of_recording(baseline, only_temp=True)
    classes, number = size_classes(rows.io["bytes"].values)
    by_size = replace(rows, io=rows.io.with_column("object", number))
    requests = Requests(by_size.requests(LINE_BYTES), LINE_BYTES, [str(size) for size in classes])
    shares = {}
    for account in simulate(requests, options).runs[0].accounts:
        op = "write" if account.is_write else "read"
        served = account.flash_write_bytes if account.is_write else account.hit_bytes
        shares[op, int(account.object)] = served / account.bytes
    return {g.kind: shares.get(g.kind, 0.0) for g in groups}


def _group(
    group: Group, flash: Storage, disk: Storage, shares: Shares, baseline: TempEvidence
) -> Group:
    """The group with latencies of flash and of the disk, in the shares of the cache."""
    share_of_flash = shares[group.kind]
    parts = [
        (share, _latency(storage, group, baseline))
        for storage, share in ((flash, share_of_flash), (disk, 1 - share_of_flash))
        if share > 0
    ]
    latency_ns, latency_count = _mixed(parts, group.count)
    mean_ns = round(1e9 * sum(share * latency.mean_s for share, latency in parts))
    mixed = group.taking(mean_ns)
    return replace(mixed, latency_ns=latency_ns, latency_count=latency_count)


def _latency(storage: Storage, group: Group, baseline: TempEvidence) -> Estimate:
    """The latency of a group's operations on flash or disk only."""
    sequential, threads = True, 1
    if isinstance(baseline, Recording):
        sequential = baseline.work.sequential.get(group.kind, 1.0) > 0.5
        threads = baseline.work.threads or 1
    # The limits of the parts become limits of the cached storage, and must not count twice.
    model = Model(replace(storage, limits=()))
    return model.latency(*group.kind, depth=float(threads), sequential=sequential)


def _distance(
    storage: Storage, groups: Sequence[Group], shares: Shares, baseline: TempEvidence
) -> dict[str, float]:
    """Shares of a part's operations whose sizes are outside or between its measured sizes.

    ``error`` is the relative standard error of their latencies, as the root mean square.
    """
    if storage.source.of_device:
        return {}
    counts = np.array([g.count * shares[g.kind] for g in groups])
    served = [group for group, count in zip(groups, counts, strict=True) if count > 0]
    if not served:
        return {}
    latencies = [_latency(storage, group, baseline) for group in served]
    weights = counts[counts > 0] / counts.sum()
    outside = np.array([latency.extrapolated for latency in latencies])
    between = np.array([not latency.measured for latency in latencies]) & ~outside
    errors = np.array([latency.error for latency in latencies])
    return {
        "extrapolated_share": float(weights @ outside),
        "between_share": float(weights @ between),
        "error": float(np.sqrt(weights @ errors**2)),
    }


def _mixed(parts: list[tuple[float, Estimate]], count: int) -> tuple[list[int], list[int]]:
    """One histogram (ns, counts) of ``count`` operations from histograms with their shares."""
    latency_s = np.concatenate([latency.latency_s for _, latency in parts])
    weight = np.concatenate(
        [share * latency.latency_count / latency.latency_count.sum() for share, latency in parts]
    )
    order = np.argsort(latency_s)
    # Cumulative counts are rounded, so that their total is ``count``.
    cumulative = np.rint(np.cumsum(weight[order]) * count).astype(int)
    cumulative[-1] = count
    counts = np.diff(cumulative, prepend=0)
    kept = counts > 0
    return [round(s * 1e9) for s in latency_s[order][kept]], [int(n) for n in counts[kept]]


def _limits(storage: Storage, groups: list[Group], shares: Shares) -> list[Limit]:
    """The limits of flash or disk for the share of the reads and writes that it serves."""
    served = []
    for op in OPS:
        of_op = [g for g in groups if g.op == op]
        moved = sum(g.bytes * shares[g.kind] for g in of_op)
        served.append(moved / max(sum(g.bytes for g in of_op), 1))
    return [
        replace(limit.scaled(*served), name=f"{storage.name}: {limit.name}")
        for limit in storage.limits
    ]
