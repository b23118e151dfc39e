"""Names and texts in PostgreSQL's statements: on one line, whatever they hold.

They can be pasted: no line of theirs ends a here-document or begins a command of psql, and no
setting of the session changes what they mean.
"""

import re

from spillcast.visible import has_control


def literal(text: str) -> str:
    """A string constant; with escapes where ``standard_conforming_strings`` would matter."""
    quoted = text.replace("'", "''")
    if "\\" not in text and not has_control(text):
        return f"'{quoted}'"
    return "E'" + "".join(map(_escaped, quoted.replace("\\", "\\\\"))) + "'"


def identifier(name: str) -> str:
    """A quoted identifier."""
    quoted = name.replace('"', '""')
    if not has_control(name):
        return f'"{quoted}"'
    quoted = quoted.replace("\\", "\\\\")
    return (
        'U&"'
        + "".join(
            _code_point(character) if has_control(character) else character for character in quoted
        )
        + '"'
    )


def shown_name(name: str) -> str:
    """An identifier in a hint: quoted where it has to be."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else identifier(name)


def _escaped(letter: str) -> str:
    if not has_control(letter):
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) > 0x7F else f"\\x{ord(letter):02x}"


def _code_point(letter: str) -> str:
    return f"\\{ord(letter):04x}"
