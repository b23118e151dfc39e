"""The limits of a storage that a query waits for, and what raising each of them saves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spillcast.document import key
from spillcast.storage.storage import Limit, Storage
from spillcast.units import format_duration

#: Changes of the elapsed time by less than this share are negligible.
NEGLIGIBLE = 0.001
#: Causes of waits other than limits of the storage.
LATENCY, QUEUE, MEMORY = "latency", "queue", "memory"
#: Relieving a cause must save at least this share of the elapsed time to count.
SAVING_MIN = 0.005
#: A second limit is named if it causes this share of temp I/O once the first is raised.
TOGETHER_MIN = 0.1
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BindingWait:
    """Time of temp I/O due to one cause on the target, and the time that relieving it saves.

    ``cause`` is the name of a limit of the storage, ``latency``, ``queue`` (for a server) or
    ``memory`` (answers of the page cache).
    """

    cause: str
    #: The sum over all causes is the temp I/O of the forecast's terms.
    elapsed_s: float
    #: The rate of the limit, in operations or bytes per second; None if it has no single rate.
    operations_per_s: float | None = None
    bytes_per_s: float | None = None
    #: Elapsed time that twice the rate saves, or half the latency; None if not computed.
    saved_s: float | None = key("", later=True, signed=True)

    @property
    def limit_text(self) -> str:
        """The limit as a product names it: ``125 MiB/s``, ``3,000 IOPS``."""
        if self._rate_text is not None:
            is_credit = "credits" in self.cause
            return f"{'burst credits, which refill at ' if is_credit else ''}{self._rate_text}"
        names = {"device time": "the device's own rate", QUEUE: "its queue"}
        return names.get(self.cause, self.cause)

    @property
    def _rate_text(self) -> str | None:
        if self.bytes_per_s is not None:
            return format_rate(self.bytes_per_s)
        if self.operations_per_s is not None:
            return f"{self.operations_per_s:,.0f} IOPS"
        return None

    @property
    def step(self) -> str:
        """The next step: ``+125 MiB/s``."""
        if self.cause == LATENCY:
            return "half the latency"
        if self.cause == "device time":
            return "a device twice as fast"
        if self.cause == QUEUE:
            return "twice the servers"
        return f"+{self._rate_text}" if self._rate_text else f"twice {self.limit_text}"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """What temp I/O waits for on a storage with limits."""

    #: The binding causes: relieving them saves the most. Empty if no cause matters.
    bound_by: Sequence[str]
    #: Elapsed time that relieving them saves.
    saved_s: float
    waits: Sequence[BindingWait]

    @property
    def text(self) -> str:
        """``bound by 125 MiB/s: +125 MiB/s saves 3.1 s, +3,000 IOPS nothing``."""
        of_cause = {wait.cause: wait for wait in self.waits}
        bound = [of_cause[cause] for cause in self.bound_by]
        if not bound:
            return "not bound by any limit of the storage"
        others = [
            wait
            for wait in self.waits
            if wait not in bound
            and wait.cause not in (LATENCY, QUEUE, MEMORY)
            and (wait.saved_s or "credits" not in wait.cause)
        ]
        steps = " and ".join(wait.step for wait in bound)
        verb = "saves" if len(bound) == 1 else "together save"
        text = f"bound by {' and '.join(wait.limit_text for wait in bound)}"
        text += f": {steps} {verb} {format_duration(self.saved_s)}"
        for wait in others:
            saved_s = wait.saved_s or 0.0
            gain = "nothing" if saved_s < SAVING_MIN * self.saved_s else format_duration(saved_s)
            text += f", {wait.step} {gain}"
        return text


def format_rate(bytes_per_s: float) -> str:
    """A rate in the unit that gives the rounder number: ``125 MiB/s`` or ``900 MB/s``."""
    mib, mb = bytes_per_s / MIB, bytes_per_s / 1e6
    off_mib, off_mb = abs(mib - round(mib)), abs(mb - round(mb))
    return f"{mib:,.4g} MiB/s" if off_mib <= off_mb else f"{mb:,.4g} MB/s"


#: Elapsed time, and the part of it in temp I/O by cause.
Outcome = tuple[float, Mapping[str, float]]


def binding_of(storage: Storage, outcome_on: Callable[[Storage], Outcome]) -> Binding:
    """The binding causes of a query on a storage, by simulations with each cause relieved."""
    elapsed_s, causes_s = outcome_on(storage)
    limits = {limit.name: limit for limit in storage.limits}
    outcomes = {
        cause: outcome_on(relieved(storage, [cause]))
        for cause, waited_s in causes_s.items()
        if cause != MEMORY and waited_s > NEGLIGIBLE * elapsed_s
    }
    saved_s = {cause: elapsed_s - relieved_s for cause, (relieved_s, _) in outcomes.items()}
    bound_by = sorted(saved_s, key=lambda cause: -saved_s[cause])[:1]
    best_s = max(saved_s.values(), default=0.0)
    if pair := _reached_together(limits, causes_s, outcomes):
        together_s = elapsed_s - outcome_on(relieved(storage, pair))[0]
        # Relieving either limit alone saves little.
        if together_s > max(2 * max(saved_s.get(cause, 0.0) for cause in pair), best_s):
            bound_by, best_s = pair, together_s
    if best_s < SAVING_MIN * elapsed_s:
        bound_by, best_s = [], max(best_s, 0.0)
    waits = [
        BindingWait(
            cause=cause,
            elapsed_s=waited_s,
            saved_s=saved_s.get(cause, None if cause == MEMORY else 0.0),
            **_rates(limits.get(cause)),
        )
        for cause, waited_s in causes_s.items()
    ]
    return Binding(bound_by=bound_by, saved_s=best_s, waits=waits)


def _reached_together(
    limits: Mapping[str, Limit], causes_s: Mapping[str, float], outcomes: Mapping[str, Outcome]
) -> list[str]:
    """The limit with the most waits, and the limit that binds once the first is raised."""
    waiting = [cause for cause in outcomes if cause in limits]
    first = max(waiting, key=lambda cause: causes_s[cause], default=None)
    if first is None:
        return []
    then_s = outcomes[first][1]
    second = max(limits, key=lambda cause: (cause != first, then_s.get(cause, 0.0)))
    if second == first or then_s.get(second, 0.0) < TOGETHER_MIN * sum(causes_s.values()):
        return []
    return [first, second]


def relieved(storage: Storage, causes: Sequence[str]) -> Storage:
    """The storage with twice the rate of limits, twice the servers, or half the latency."""
    servers, groups = storage.servers, storage.groups
    if QUEUE in causes and servers is not None:
        servers *= 2
    if LATENCY in causes:
        groups = [group.scaled(0.5) for group in groups]
    # ``burst_ns`` stays: the bucket holds as many seconds of the rate as before.
    limits = [limit.scaled(0.5, 0.5) if limit.name in causes else limit for limit in storage.limits]
    return replace(storage, limits=limits, servers=servers, groups=groups)


def _rates(limit: Limit | None) -> dict[str, float]:
    """The rate of a limit in operations or bytes per second, if it limits only one of the two."""
    if limit is None:
        return {}
    of_operations = limit.read_random_ns or limit.write_random_ns
    if per_byte := limit.write_ns_per_byte or limit.read_ns_per_byte:
        return {} if of_operations else {"bytes_per_s": 1e9 / per_byte}
    return {"operations_per_s": 1e9 / limit.read_random_ns} if limit.read_random_ns else {}
