"""Durations and sizes: read from what people type, written as people read them."""

import re

from spillcast.errors import InputError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration_s(text: str) -> float:
    """Seconds from ``150us``, ``9 ms``, ``60``, ``2m`` or ``1.5h``; a bare number is seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower().replace("µ", "u"))
    if match is None or (match[2] or "s") not in _SECONDS:
        raise InputError(f"'{text}' is not a duration", "write for example 150us, 9ms, 60s or 2m")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def parse_factor(target: str, value: str) -> float:
    """The number of ``factor:60``; ``target`` is the whole word, for the error."""
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise InputError(f"--to {target}: a factor is a number above 0", "for example factor:60")
    return factor


def parse_bytes(text: str) -> int:
    """Bytes from ``256K``, ``1.5 GiB`` or ``200MB``; units are powers of 1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise InputError(f"'{text}' is not a size", "write for example 256K, 200M or 10G")
    return round(float(match[1]) * _BYTES[match[2]])


def format_duration(seconds: float) -> str:
    """A duration with three significant digits: ``150 us``, ``9.04 ms``, ``5 min 48 s``."""
    size = abs(seconds)
    if size >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if size >= 99.95:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60:02d} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if size >= 0.9995 * scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return "0 s" if seconds == 0 else f"{seconds * 1e9:.0f} ns"


def format_bytes(count: float) -> str:
    """A size in powers of 1024 with three significant digits: ``256 KiB``, ``1.52 GiB``."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{_three_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def format_speedup(ratio: float) -> str:
    """A ratio of elapsed times: ``2.23x``, ``59x``, ``0.0025x``."""
    if 0 < abs(ratio) < 0.0995:
        return f"{ratio:.2g}x"
    return f"{_three_digits(ratio)}x"


def _three_digits(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) == int(value) else text
