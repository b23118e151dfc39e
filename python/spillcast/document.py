"""JSON documents as frozen dataclasses: read and checked by msgspec, written, and described.

``key`` describes a key where it is declared: msgspec gets its type from it, docs/schema.md and the
JSON Schemas their texts. msgspec cannot use the dataclasses themselves: most have defaults for
evidence without a document, while the document must hold the key, and some keys are omitted if they
have their default.

msgspec rather than pydantic (in parentheses): it takes 0.7 MB (11), 18 ms of CPU time to import
(76), and decodes a storage of 3.7 MB as dataclasses in 12 ms (22).
"""

import threading
import types
import typing
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from spillcast.errors import EvidenceDamaged
from spillcast.gate import INTEGER_MAX

Document = TypeVar("Document")
#: Marks a key without an example.
UNSHOWN = object()
#: Types that JSON contains unchanged.
_PLAIN = frozenset({int, float, bool, type(None)})


class Note(TypedDict):
    """A weakness of a result; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Key:
    """Properties of a key of a document, besides its name and type."""

    meaning: str = ""
    unit: str = ""
    example: object = UNSHOWN
    #: Written only if it differs from its default.
    optional: bool = False
    #: Always written, but missing in documents of earlier versions.
    later: bool = False
    #: Whether a number may be negative.
    signed: bool = False
    #: Contains all keys that are not fields; they are written next to the other keys.
    rest: bool = False
    #: Its name in the document, if that is a keyword of Python; else the field's name.
    name: str | None = None
    #: Its type in the document, if the reader converts it.
    form: type | None = None


def key(meaning: str, *, default: Any = MISSING, **properties: Any) -> Any:
    """A field of a document, with the properties of a ``Key``.

    Every document holds it, unless ``optional`` or ``later``. If a document lacks it, it has the
    value ``default``, or None.
    """
    about = Key(meaning, **properties)
    if about.rest or default is dict:
        return field(default_factory=dict, metadata={"key": about})
    if (about.optional or about.later) and default is MISSING:
        default = None
    return field(default=default, metadata={"key": about})


def later(default: Any = None) -> Any:
    """A field that is always written, but missing in documents of earlier versions."""
    return key("", default=default, later=True)


def internal(default: Any = None) -> Any:
    """A field that documents do not contain."""
    return field(default=default, metadata={"internal": True})


def read(kind: type[Document], document: Any) -> Document:
    """An instance of ``kind`` from a parsed document. EvidenceDamaged names a wrong key.

    Numbers must be finite and, unless declared ``signed``, not negative. Keys that are not in
    ``kind`` are assumed to be of later versions.
    """
    try:
        with _FIRST_USE:
            checked = msgspec.convert(document, _form(kind), dec_hook=_path)
        result: Document = _instance(checked, document)
    except ValueError as error:
        raise EvidenceDamaged(f"damaged: {error}") from error
    return result


def schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of a document; ``unit`` is a key of our own in it."""
    return msgspec.json.schema(_form(kind), schema_hook=lambda _path: {"type": "string"})


def written(value: Any) -> Any:
    """The document of an instance, or the JSON value of a part of it."""
    if is_dataclass(value):
        record: dict[str, Any] = {}
        for field_, about in keys_of(type(value)):
            inner = getattr(value, field_.name)
            if about.rest:
                record |= inner
            elif not (about.optional and inner == field_.default):
                record[about.name or field_.name] = written(inner)
        return record
    if isinstance(value, Path | str):
        return as_text(str(value))
    if isinstance(value, list | tuple):
        return [part if type(part) in _PLAIN else written(part) for part in value]
    if isinstance(value, dict):
        return {
            name: part if type(part) in _PLAIN else written(part) for name, part in value.items()
        }
    # Numbers and arrays of numpy.
    return value.tolist() if hasattr(value, "tolist") else value


class PrintedDocument:
    """A dataclass that ``--json`` prints with the name of its schema."""

    SCHEMA: typing.ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": self.SCHEMA, **written(self)}


def as_text(text: str) -> str:
    """A name from the system as text; invalid UTF-8, which JSON cannot hold, is replaced."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def keys_of(kind: Any) -> list[tuple[Field[Any], Key]]:
    """The fields that a document contains, and the properties of their keys.

    A field that was not made by ``key`` may be missing if it has a default.
    """
    return [
        (field_, field_.metadata.get("key") or Key(optional=field_.default is not MISSING))
        for field_ in fields(kind)
        if "internal" not in field_.metadata
    ]


def _form(kind: Any) -> type[msgspec.Struct]:
    """The msgspec type that checks a document of ``kind``."""
    if kind in _FORMS:
        return _FORMS[kind]
    hints, keys = get_type_hints(kind, include_extras=True), list[tuple[Any, ...]]()
    for field_, about in keys_of(kind):
        if not about.rest:
            hint = about.form or hints[field_.name]
            type_: Any = Annotated[_type(hint, about), _meta(about)]
            default = msgspec.UNSET if about.optional or about.later else msgspec.NODEFAULT
            keys.append((field_.name, type_, msgspec.field(default=default, name=about.name)))
    form = msgspec.defstruct(kind.__name__, keys, kw_only=True)
    _FORMS[kind], _KINDS[form] = form, kind
    return form


#: msgspec completes a type on first use, and crashes if two threads do that at once.
_FIRST_USE = threading.RLock()
_FORMS: dict[Any, type[msgspec.Struct]] = {}
#: The dataclasses of the types that check their documents.
_KINDS: dict[type, Any] = {}


def _meta(about: Key) -> msgspec.Meta:
    return msgspec.Meta(
        description=about.meaning or None,
        examples=None if about.example is UNSHOWN else [about.example],
        extra_json_schema={"unit": about.unit} if about.unit else None,
    )


def _type(hint: Any, about: Key) -> Any:
    """A type for msgspec, with bounds of numbers and forms of dataclasses."""
    if hint in (int, float):
        upper = hint(INTEGER_MAX >> 1)
        return Annotated[hint, msgspec.Meta(ge=-upper if about.signed else 0, le=upper)]
    if is_dataclass(hint):
        return _form(hint)
    if typing.is_typeddict(hint):
        named = {name: _type(inner, about) for name, inner in get_type_hints(hint).items()}
        return TypedDict(hint.__name__, named, total=hint.__total__)  # type: ignore[operator]
    if get_origin(hint) is Annotated:
        # A dictionary whose known keys are declared by a TypedDict.
        return _type(hint.__metadata__[0], about)
    inner = tuple(_type(argument, about) for argument in get_args(hint))
    match get_origin(hint):
        case None | typing.Literal:
            return hint
        case types.UnionType:
            return Union[inner]  # noqa: UP007
        case origin:
            return origin[inner]


def _path(kind: type, value: Any) -> Any:
    """Convert text to a path, which msgspec does not do."""
    if kind is not Path or not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return Path(value)


def _instance(checked: Any, document: Any) -> Any:
    """The dataclass of a checked document, or the value of a key with its dataclasses."""
    if isinstance(checked, msgspec.Struct):
        names = dict(zip(checked.__struct_encode_fields__, checked.__struct_fields__, strict=True))
        record = {
            names[name]: _instance(getattr(checked, names[name]), value)
            for name, value in document.items()
            if name in names
        }
        kind = _KINDS[type(checked)]
        for field_, about in keys_of(kind):
            if about.rest:
                record[field_.name] = {k: v for k, v in document.items() if k not in names}
        return kind(**record)
    if isinstance(checked, list) and checked and not isinstance(checked[0], int | str):
        return [_instance(value, part) for value, part in zip(checked, document, strict=True)]
    if isinstance(checked, dict):
        # A TypedDict names only the keys whose types are known.
        return {
            name: _instance(checked[name], value) if name in checked else value
            for name, value in document.items()
        }
    return checked
