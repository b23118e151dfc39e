"""Public functions: packages that are called, and errors for arguments of other types."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from errno import ENAMETOOLONG
from functools import wraps
from importlib import import_module
from inspect import formatannotation, signature
from numbers import Integral, Real
from types import GenericAlias, ModuleType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from spillcast.errors import OptionInvalid, PathMissing, UsageInvalid
from spillcast.text import one_line

Function = TypeVar("Function", bound=Callable[..., Any])
#: Types that also accept other types, such as numpy's numbers.
_ABSTRACT: Mapping[Any, Any] = {int: Integral, float: Real}
#: Maximum length of a value in an error, in characters.
_VALUE_MAX = 60


def check_types(values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """OptionInvalid for a value that is not of its type; hints in quotes are not checked."""
    for name, value in values.items():
        if not _is_of(value, hint := hints.get(name, Any)):
            text = one_line(f"{name}={value!r}", _VALUE_MAX)
            form = re.sub(r"\b\w++\.(?=\w)", "", formatannotation(hint))
            raise OptionInvalid(f"{text}: wrong type", f"{name}: {form}")


def checked(function: Function) -> Function:
    """The function with a check of the types of its arguments."""
    hints, parameters = dict(function.__annotations__), signature(function)
    hints |= {p.name: Any for p in parameters.parameters.values() if p.kind is p.VAR_KEYWORD}
    hints |= {
        p.name: GenericAlias(tuple, (p.annotation, ...))
        for p in parameters.parameters.values()
        if p.kind is p.VAR_POSITIONAL
    }
    name = function.__qualname__.lstrip("_")
    call_form = name + re.sub(r"^\((?:self|cls)(?:, )?", "(", str(parameters))

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            check_types(parameters.bind(*arguments, **options).arguments, hints)
        except TypeError as error:
            raise UsageInvalid(f"{name}: {error}", call_form) from None
        try:
            return function(*arguments, **options)
        except OSError as error:
            if error.errno != ENAMETOOLONG:
                raise
            message = f"{name}: no file has a name of {len(str(error.filename)):,} characters"
            raise PathMissing(message, "save a text in a file and name that") from None

    return call  # type: ignore[return-value]


def as_package(name: str) -> Callable[[Function], Function]:
    """Make the package ``name`` callable, as a checked call of the decorated function."""

    def of_function(function: Function) -> Function:
        members = {
            "__call__": staticmethod(checked(function)),
            "__signature__": signature(function),
            # Process pools pickle functions by name.
            "__reduce__": lambda _self: (import_module, (name,)),
        }
        sys.modules[name].__class__ = type("Package", (ModuleType,), members)
        return function

    return of_function


def _is_of(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, str):
        return True
    if origin is UnionType:
        return any(_is_of(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is None:
        is_of_kind = isinstance(value, _ABSTRACT.get(hint, hint))
        return is_of_kind and (hint is bool or not isinstance(value, bool))
    if not issubclass(origin, Iterable):
        return isinstance(value, origin)
    # An iterator can be read only once.
    is_of_kind = isinstance(value, Iterable)
    return is_of_kind and (isinstance(value, Iterator) or all(_is_of(v, inner[0]) for v in value))
