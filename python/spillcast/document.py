"""JSON documents as frozen dataclasses: read and checked in one place, written, and described."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spillcast.errors import EvidenceDamaged
from spillcast.gate import INTEGER_MAX

Document = TypeVar("Document")
#: An example that is not given.
UNSHOWN = object()


@dataclass(frozen=True)
class Key:
    """What is known of one key of a document, beside its name and type."""

    meaning: str
    unit: str
    example: object
    #: Written only where it is known.
    optional: bool
    #: Always written, and lacking in documents of earlier versions.
    later: bool
    #: Whether a number may be negative.
    signed: bool
    #: Holds the keys that no other field names, which are written beside the others.
    rest: bool


def key(
    meaning: str,
    *,
    unit: str = "",
    example: object = UNSHOWN,
    default: Any = MISSING,
    optional: bool = False,
    later: bool = False,
    signed: bool = False,
    rest: bool = False,
) -> Any:
    """A field of a document: every such document holds it, unless ``optional`` or ``later``."""
    about = {"key": Key(meaning, unit, example, optional, later, signed, rest)}
    if rest:
        return field(default_factory=dict, metadata=about)
    if optional and default is MISSING:
        default = None
    return field(default=default, metadata=about)


def later(default: Any = None) -> Any:
    """A field that is always written, and that documents of earlier versions may lack."""
    return key("", default=default, later=True)


def internal(default: Any = None) -> Any:
    """A field that no document holds."""
    return field(default=default, metadata={"internal": True})


class _Damage(ValueError):
    """What is wrong with a document, and where in it."""


def read(kind: type[Document], document: Any, where: str, hint: str) -> Document:
    """An instance of ``kind`` from a parsed document. InputError says what is wrong, and ``where``.

    Numbers are finite and, where nothing else is said, not negative. Keys that ``kind`` does not
    name are those of later versions.
    """
    try:
        result: Document = _object(kind, document, "")
    except _Damage as damage:
        raise EvidenceDamaged(f"{where}: damaged: {damage}", hint) from damage
    return result


def written(value: Any) -> Any:
    """The document of an instance, or the JSON value of a part of it."""
    if is_dataclass(value):
        record: dict[str, Any] = {}
        for field_ in _fields(value):
            about, inner = _about(field_), getattr(value, field_.name)
            if about.rest:
                record |= inner
            elif not (about.optional and inner == field_.default):
                record[field_.name] = written(inner)
        return record
    if isinstance(value, Path | str):
        return as_text(str(value))
    if isinstance(value, list | tuple):
        return [field_ if type(field_) is int else written(field_) for field_ in value]
    if isinstance(value, dict):
        return {name: written(field_) for name, field_ in value.items()}
    # Numbers and arrays of numpy.
    return value.tolist() if hasattr(value, "tolist") else value


def as_text(text: str) -> str:
    """A name of the system as text, with invalid UTF-8 replaced, which JSON cannot hold."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def table(kind: type, prefix: str = "") -> Iterator[tuple[str, Key]]:
    """The keys of a document, those of its parts with a dot or ``[].`` before them."""
    types = get_type_hints(kind)
    for field_ in _fields(kind):
        about = _about(field_)
        if about.rest and not about.meaning:
            continue
        name, inner, dot = f"{prefix}{field_.name}", _bare(types[field_.name]), "."
        if get_origin(inner) is Sequence:
            (inner,), dot = get_args(inner), "[]."
        nested = is_dataclass(inner) and isinstance(inner, type)
        if not nested or about.meaning:
            yield f"{name}[]" if nested and dot == "[]." else name, about
        if nested:
            assert isinstance(inner, type)
            yield from table(inner, name + dot)


def _fields(kind: Any) -> list[Field[Any]]:
    return [each for each in fields(kind) if "internal" not in each.metadata]


def _about(field_: Field[Any]) -> Key:
    """What is known of a field; of a plain one that it may lack where it has a default."""
    bare = Key("", "", UNSHOWN, field_.default is not MISSING, False, False, False)
    key_: Key = field_.metadata.get("key", bare)
    return key_


@cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _object(kind: Any, value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise _Damage(_unlike(value, at, "an object"))
    types, record = _types(kind), dict[str, Any]()
    known = {field_.name for field_ in _fields(kind) if not _about(field_).rest}
    for field_ in _fields(kind):
        about, name = _about(field_), field_.name
        if about.rest:
            record[name] = {each: inner for each, inner in value.items() if each not in known}
        elif name in value:
            record[name] = _value(types[name], value[name], f"{at}.{name}".lstrip("."), about)
        elif not (about.optional or about.later):
            raise _Damage(f"it lacks {at}.{name}".replace(" .", " "))
    try:
        return kind(**record)
    except ValueError as error:
        raise _Damage(str(error)) from error


def _value(kind: Any, value: Any, at: str, about: Key) -> Any:
    """A value of a type, or a part of a document. Raises what it is instead."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return None if value is None else _value(_bare(kind), value, at, about)
    if kind is Any:
        return value
    if origin is Literal:
        kind = type(get_args(kind)[0])
    if origin is tuple:
        inner = get_args(kind)
        if not isinstance(value, list) or len(value) != len(inner):
            raise _Damage(_unlike(value, at, f"a list of {len(inner)}"))
        return tuple(_value(k, v, f"{at}[]", about) for k, v in zip(inner, value, strict=True))
    if origin is Sequence:
        return _list(get_args(kind)[0], value, at, about)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _Damage(_unlike(value, at, "an object"))
        inner_kind = get_args(kind)[1]
        return {name: _value(inner_kind, v, f"{at}.{name}", about) for name, v in value.items()}
    if is_dataclass(kind):
        return _object(kind, value, at)
    return _scalar(kind, value, at, about)


def _list(kind: Any, value: Any, at: str, about: Key) -> list[Any]:
    if not isinstance(value, list):
        raise _Damage(_unlike(value, at, "a list"))
    if kind is int and all(type(item) is int for item in value) and min(value, default=0) >= 0:
        return value
    return [_value(kind, item, f"{at}[]", about) for item in value]


_WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "text",
    Path: "text",
    int: "a whole number",
}


def _scalar(kind: Any, value: Any, at: str, about: Key) -> Any:
    fits: Any = str if kind is Path else (int, float) if kind is float else kind
    if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
        wanted: str = _WORDS.get(kind, "a number")
        raise _Damage(_unlike(value, at, wanted))
    if kind in (int, float):
        if not abs(value) <= INTEGER_MAX:
            raise _Damage(_unlike(value, at, f"finite, or at most {INTEGER_MAX:.2g}"))
        if value < 0 and not about.signed:
            raise _Damage(_unlike(value, at, "0 or more"))
    return kind(value)


def _bare(kind: Any) -> Any:
    """A type that may be None, without that."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    return kind


def _unlike(value: Any, at: str, wanted: str) -> str:
    parts: dict[Any, str] = {dict: "an object", list: "a list"}
    shown = parts.get(type(value)) or json.dumps(value)
    return f"{at or 'it'} is {shown if len(shown) < 40 else shown[:37] + '...'}, not {wanted}"
