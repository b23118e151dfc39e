"""Figures in words, as every section writes them."""

from spillcast.units import format_bytes, format_duration

#: A dash where there is no figure, and the sign of what is below 0.
NOTHING, MINUS = "\u2013", "\u2212"


def seconds(value: float | None) -> str:
    """A duration, or a dash."""
    return NOTHING if value is None else format_duration(value)


def micros(value: float | None) -> str:
    """A duration given in us, or a dash."""
    return NOTHING if value is None else format_duration(value / 1e6)


def size(value: float | None) -> str:
    """A size, or a dash."""
    return NOTHING if value is None else format_bytes(value)


def count(value: float | None) -> str:
    """A count, or a dash."""
    return NOTHING if value is None else f"{value:,.0f}"


def number(value: int) -> str:
    """A whole number, in a word where it has one that is short."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[value] if 0 <= value < len(words) else f"{value:,}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share, or a dash."""
    return NOTHING if value is None else f"{100 * value:.{digits}f} %"


def change(value_s: float) -> str:
    """A difference of durations with its sign."""
    if abs(value_s) < 5e-7:
        return "0"
    return f"{MINUS if value_s < 0 else '+'}{format_duration(abs(value_s))}"


def between(bounds: tuple[float, float] | list[float] | None) -> str:
    """The bounds of an interval of durations."""
    return NOTHING if bounds is None else " to ".join(map(format_duration, bounds))


def sentence(text: str) -> str:
    """A message as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?", "!")) else ".")
