"""What a storage reads and writes in a second, from its figures or as stated."""

from spillcast.cache.elapsed import Device
from spillcast.errors import Refusal, TargetInvalid
from spillcast.recording.event_names import OPS
from spillcast.storage.model import Model
from spillcast.storage.target import resolve_storage
from spillcast.units import parse_bytes

#: Operations under way at once where storage is read as fast as it can be.
DEPTH = 32
_FORMS = "a rate such as 9G/s or 9G/s,3.4G/s (read, write), a storage.json, or catalogue:NAME"


def device(text: str, option: str, operation_bytes: int) -> Device:
    """The device that ``text`` names, for operations of a size in bytes.

    InputError where it names none, or one without figures.
    """
    if text.endswith("/s"):
        rates = [parse_bytes(rate.strip().removesuffix("/s")) for rate in text.split(",")]
        if len(rates) > 2 or not all(rates):
            raise TargetInvalid(f"{option} {text}: not a rate", f"give {_FORMS}")
        return Device(text, rates[0], rates[-1])
    storage = resolve_storage(text, f"{option} {text}", _FORMS)
    model = Model(storage)
    try:
        rates_per_s = [
            DEPTH
            * operation_bytes
            / model.latency(op, operation_bytes, depth=DEPTH, sequential=True).mean_s
            for op in OPS
        ]
    except Refusal as refusal:
        raise TargetInvalid(f"{option} {text}: {refusal}", f"give {_FORMS}") from refusal
    return Device(storage.name, *rates_per_s)
