"""Prefixes that log shippers, container runtimes and syslog put before each line."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

_ISO = r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)"
#: Prefixes of one or two log shippers, also before continuation lines of a message.
SHIPPERS = re.compile(
    "^(?>"
    # syslog in its older format; a server numbers its messages and their lines.
    r"(?:<\d+>)?[^\W\d_]{3,4}\.? [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? "
    r"\S+ [\w./-]+(?:\[\d*)?\]?: (?:\[[\d-]+\] ?)?"
    # Container log files on a Kubernetes node.
    rf"|{_ISO} std(?:out|err) [FP] "
    # syslog with ISO 8601 times, in its older and its newer format.
    rf"|(?:(?:\d{{1,9}} )?<\d+>1 )?{_ISO} (?!(?:Planning|Execution|Total) )\S+ "
    r"(?:[\w./-]+(?:\[\d+\]:| \d+ \S+ \S+| [a-z][\w.-]* -) |[\w./-]+: )"
    r"(?:\[\w+\] )?(?:\[[\d-]+\] ?)?"
    # kubectl logs --prefix, without or with --timestamps.
    r"|\[pod/[\w./-]+\] "
    # Heroku.
    rf"|{_ISO} \w+\[[\w.-]+\]: (?:\[\w+\] )?(?:\[[\d-]+\] ?)?"
    # Fly.io, before the prefix of docker compose.
    rf"|{_ISO} \w+\[\w+\] \w+ \[\w+\] ?"
    # docker compose.
    r"|\[?[\w./-]+\]?\s+\| ?"
    # kubectl logs --timestamps, docker logs -t, aws logs tail.
    rf"|{_ISO}(?: (?=[ \t])|[ \t])"
    "){1,2}+"
)
#: What differs between lines of one program: times, the numbers of messages, whether a line of a
#: container is whole, and the width to which docker compose pads names.
_VARYING = re.compile(
    rf"{_ISO}|^<\d+>|^\d+ (?=<)|[^\W\d_]{{3,4}}\.? [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\[[\d-]+\] ?$| [FP] $|(?<!\s)\s+\| ?"
)
#: A text counts as shipped if at least this share of its first lines has a prefix.
_SHARE = 0.8
_LINES_MIN, _LINES_MAX = 3, 200


def without_shipper(line: str) -> str:
    """A line of a log without shippers' prefixes."""
    return SHIPPERS.sub("", line)


def common_prefix(lines: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern for the common prefix of lines; numbers in it may differ."""
    # The first lines show that most texts have none.
    if len(lines) < 3 or (len(lines) > 3 and common_prefix(lines[:3]) is None):
        return None
    masked = [re.sub(r"\d+", "0", line) for line in lines]
    # The common prefix of the lexically first and last line is common to all lines.
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(masked), max(masked), strict=False))
    # A quote, a bar or a word at the end of the prefix belongs to the text.
    prefix = re.sub(r"(?<![\w\"'(|])[\w\"'(|]++$", "", "".join(char for char, _ in pairs))
    return re.compile("^" + re.escape(prefix).replace("0", r"\d+")) if prefix.strip() else None


def unshipper(head: str) -> Callable[[str], str] | None:
    """A function that removes the prefix of most lines of a text's beginning; None without one.

    Lines of other programs keep their prefix.
    """
    lines = list(filter(str.strip, head.split("\n", _LINES_MAX)[:-1]))
    programs = Counter(filter(None, map(program_of, lines))).most_common(1)
    if not programs or programs[0][1] < max(_LINES_MIN, _SHARE * len(lines)):
        return None
    program = programs[0][0]
    return lambda line: without_shipper(line) if program_of(line) == program else line


def program_of(line: str) -> str | None:
    """A shipper's prefix without what differs between lines; None for a line without one."""
    prefix = SHIPPERS.match(line)
    return None if prefix is None else _VARYING.sub("0", prefix[0])
