"""A row of the catalogue: what is known of a storage, and what of it can be chosen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spillcast.errors import InputError, TargetInvalid
from spillcast.storage.catalogue.latency import latency_class
from spillcast.storage.catalogue.volumes import UNIT_BYTES
from spillcast.storage.limit import Limit
from spillcast.storage.source import catalogue
from spillcast.storage.storage import Storage
from spillcast.units import format_bytes, parse_bytes, parse_bytes_per_s, parse_rate

GIB = 1 << 30


@dataclass(frozen=True)
class Parameter:
    """What can be chosen of a storage: ``NAME?key=value``. Sizes are bytes."""

    key: str
    default: float
    low: float
    high: float
    unit: str

    @property
    def allowed(self) -> str:
        """The range, with its unit."""
        if self.unit == "bytes":
            return f"{format_bytes(self.low)} to {format_bytes(self.high)}"
        return f"{self.low:,.10g} to {self.high:,.10g} {self.unit}"

    def value(self, name: str, text: str) -> float:
        """The number that ``text`` says. InputError where it is none, or outside the range."""
        try:
            value = self._parsed(text)
        except InputError:
            value = float("nan")
        if not self.low <= value <= self.high:
            raise TargetInvalid(f"catalogue:{name}: {self.key}={text}: {name} takes {self.allowed}")
        return value

    def _parsed(self, text: str) -> float:
        if self.unit == "bytes":
            return parse_bytes(text)
        unit_bytes = UNIT_BYTES.get(self.unit.removesuffix("/s"))
        if unit_bytes is None:
            return parse_rate(text)
        try:
            return float(text)
        except ValueError:
            return parse_bytes_per_s(text) / unit_bytes


Values = Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A storage of the catalogue. ``title`` is a few words, ``description`` a sentence."""

    name: str
    title: str
    description: str
    #: Where the figures come from, with an address and what it says.
    source: str
    #: Name of the class in ``data/latencies.csv``.
    latency: str
    #: The factor up or down within which the true figures probably are.
    spread: float
    limits: Callable[[Values], Sequence[Limit]]
    parameters: Sequence[Parameter] = ()
    #: From what is asked to a value for every parameter; None where the defaults fill the gaps.
    settle: Callable[[Values], Values] | None = None

    def storage(self, settings: Mapping[str, str] | None = None) -> Storage:
        """The storage with what is asked of it. InputError says what can be asked."""
        settings = settings or {}
        known = {parameter.key: parameter for parameter in self.parameters}
        for key in settings:
            if key not in known:
                raise TargetInvalid(
                    f"catalogue:{self.name}: '{key}' cannot be chosen", self._choices()
                )
        given = {key: known[key].value(self.name, text) for key, text in settings.items()}
        if self.settle is not None:
            values = self.settle(given)
        else:
            values = {parameter.key: parameter.default for parameter in self.parameters} | given
        latencies = latency_class(self.latency)
        spread = max(self.spread, latencies.spread)
        tail = "&".join(f"{key}={text}" for key, text in settings.items())
        return Storage(
            f"catalogue:{self.name}" + (f"?{tail}" if tail else ""),
            catalogue(spread, self.source),
            latencies.groups(),
            {
                "description": self.description,
                "source": self.source,
                "assumed": [latencies.sentence()],
                "spread": spread,
                "parameters": {k: int(v) if v == int(v) else v for k, v in values.items()},
            },
            list(self.limits(values)),
        )

    def _choices(self) -> str:
        if not self.parameters:
            return "its figures are fixed"
        return "choose " + ", ".join(f"{p.key} ({p.allowed})" for p in self.parameters)
