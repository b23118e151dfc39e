"""One cache, simulated: what it serves by object and class, run by run, and how long that takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast import _core
from spillcast.cache.elapsed import Device, Traffic
from spillcast.cache.evidence import Requests
from spillcast.errors import ChoiceUnknown, OptionConflict, OptionInvalid
from spillcast.units import format_bytes

#: Share of the cache that temp data may take by the rules of ``keep``.
TEMP_SHARE = 0.5
_LINES_MAX = 1 << 30


@dataclass(frozen=True)
class CacheOptions:
    """The cache to simulate."""

    size_bytes: int
    policy: str = "lru"
    keep: Sequence[str] = ()
    temp_writes: bool = False
    temp_share: float = TEMP_SHARE
    #: Share of the hits that flash serves; the disk reads the others at the same time.
    from_flash: float = 1.0
    #: How often the same I/O runs: the first run fills the cache, the next one starts warm.
    runs: int = 2

    def check(self) -> None:
        """InputError for parameters that no cache can have."""
        policies = _core.CacheRequests.policies()
        if self.policy not in policies:
            raise ChoiceUnknown(
                f"--policy {self.policy}: there is no such policy",
                f"the policies are {', '.join(policies)}",
            )
        if self.size_bytes == 0:
            raise OptionInvalid(
                "--size 0: a cache of no size holds nothing", "for example --size 10G"
            )
        if self.keep and self.policy != "keep":
            raise OptionConflict("--keep is a rule of --policy keep")


@dataclass(frozen=True)
class Run:
    """One pass through the requests. Each account has the keys of docs/schema.md."""

    accounts: list[dict[str, Any]]
    traffic: Traffic

    def total(self, key: str) -> int:
        """Sum over all accounts."""
        return sum(account[key] for account in self.accounts)

    @property
    def hit_ratio(self) -> float:
        """Share of the read requests that the cache serves."""
        reads = [a for a in self.accounts if not a["class"].endswith("write")]
        count = sum(a["requests"] for a in reads)
        return sum(a["hits"] for a in reads) / count if count else 0.0


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation, run by run."""

    options: CacheOptions
    line_bytes: int
    runs: list[Run]
    #: All I/O from the disk.
    without: Traffic
    #: Bytes cached at the end, by object.
    cached_bytes: dict[str, int]

    def elapsed_s(self, flash: Device, disk: Device) -> list[float]:
        """Time of the I/O of each run."""
        return [run.traffic.elapsed_s(flash, disk) for run in self.runs]


def simulate(
    requests: Requests, options: CacheOptions, on_progress: Callable[[int], None] | None = None
) -> Simulation:
    """Run the requests through an empty cache, then again. InputError for an impossible cache.

    ``on_progress`` gets the number of requests done; their total is unknown.
    """
    options.check()
    lines = lines_of(options.size_bytes, requests.line_bytes)
    kept = requests.numbers_of(options.keep)
    core = requests.core
    outcome = requests.run(
        lambda: core.simulate(
            options.policy,
            lines,
            kept=kept,
            temp_share=options.temp_share,
            temp_writes=options.temp_writes,
            runs=options.runs,
            alone=len(requests.objects) > 1,
        ),
        on_progress,
    )
    cached = {
        requests.objects[number]: count * requests.line_bytes
        for number, count in enumerate(outcome["cached_lines"])
    }
    runs = [_run(run, requests, options) for run in outcome["runs"]]
    return Simulation(options, requests.line_bytes, runs, _without(runs[0]), cached)


def lines_of(size_bytes: int, line_bytes: int) -> int:
    """The number of lines of a cache. InputError if it has none, or too many to simulate."""
    lines = size_bytes // line_bytes
    if lines == 0:
        problem = (
            f"--size {format_bytes(size_bytes)} is less than a line of {format_bytes(line_bytes)}"
        )
        raise OptionInvalid(problem, "give a smaller --line, or a larger --size")
    return min(lines, _LINES_MAX)


def _run(run: dict[str, Any], requests: Requests, options: CacheOptions) -> Run:
    accounts: list[dict[str, Any]] = []
    for account in run["accounts"]:
        named = {**account, "object": requests.objects[account["object"]]}
        # With a single object the shared cache is the same as one of its own.
        alone = named.pop("alone_hits") if len(requests.objects) > 1 else named["hits"]
        named["lost_hits"] = alone - named["hits"]
        accounts.append(named)
    reads = [a for a in accounts if not a["class"].endswith("write")]
    from_flash = options.from_flash * sum(a["hit_bytes"] for a in reads)
    back = run["lines_written_back"] * requests.line_bytes
    traffic = Traffic(
        from_flash,
        sum(a["flash_write_bytes"] for a in accounts),
        sum(a["bytes"] for a in reads) - from_flash,
        sum(a["disk_write_bytes"] for a in accounts) + back,
    )
    return Run(accounts, traffic)


def _without(run: Run) -> Traffic:
    writes = sum(a["bytes"] for a in run.accounts if a["class"].endswith("write"))
    return Traffic(disk_read=run.total("bytes") - writes, disk_write=writes)
