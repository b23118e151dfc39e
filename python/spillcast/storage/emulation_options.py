"""The storage that the options of an emulation describe."""

from dataclasses import replace

from spillcast.errors import OptionConflict, OptionInvalid
from spillcast.storage.behaviour import Behaviour, behaviour_of, fixed_behaviour
from spillcast.storage.limit import bytes_limit
from spillcast.storage.target import resolve_storage
from spillcast.units import format_bytes, parse_bytes, parse_latency_s


def model_of_options(
    storage: str | None,
    read: str | None,
    write: str | None,
    bandwidth: str | None,
    servers: int | None,
) -> Behaviour:
    """The model of the flags. InputError if they contradict each other."""
    if storage is not None and (read or write):
        raise OptionConflict(
            "--storage says how long reads and writes take", "leave --read, --write"
        )
    if not any((storage, read, write, bandwidth, servers)):
        message = "emulate needs --storage, or --read and --write"
        raise OptionInvalid(message, "for example --read 9ms --write 4ms")
    if storage is not None:
        model = behaviour_of(resolve_storage(storage, f"--storage {storage}"))
    else:
        model = fixed_behaviour(
            *(
                None if text is None else parse_latency_s(text, f"--{op}")
                for op, text in (("read", read), ("write", write))
            )
        )
    if bandwidth is not None:
        per_s = parse_bytes(bandwidth.removesuffix("/s"), "--bandwidth")
        if per_s == 0:
            raise OptionInvalid(f"--bandwidth {bandwidth}: nothing would ever move")
        limit = bytes_limit(f"{format_bytes(per_s)}/s", per_s)
        model = replace(model, limits=[*model.limits, limit])
    return model if servers is None else replace(model, servers=servers)
