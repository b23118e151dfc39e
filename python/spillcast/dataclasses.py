"""Python's dataclasses, except that frozen ones share their methods, so that a start is fast.

Python compiles six methods for each frozen class, in 0.5 ms: a fifth of the time of a small
forecast. Of these, only ``__init__`` has to differ between classes.
"""

import dataclasses as python
from dataclasses import *  # noqa: F403
from dataclasses import FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if not TYPE_CHECKING:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **options):
        """The decorator of Python; ``order`` and ``slots`` take Python's own methods."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr, **options)
        if not frozen or options.keys() - {"kw_only"}:
            return python.dataclass(cls, frozen=frozen, eq=eq, repr=repr, **options)
        declared = set(vars(cls))
        cls = python.dataclass(cls, eq=False, repr=False, **options)
        names = {"__setattr__", "__delattr__"}
        names |= {"__eq__", "__hash__"} if eq else set()
        names |= {"__repr__"} if repr else set()
        for name in names - declared:
            setattr(cls, name, vars(_Frozen)[name])
        return cls


class _Frozen:
    """The methods of all frozen dataclasses. ``__init__`` assigns each field once."""

    def __setattr__(self, name: str, value: Any) -> None:
        values = self.__dict__
        if name in values or name not in self.__dataclass_fields__:  # type: ignore[attr-defined]
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        values[name] = value

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))

    @recursive_repr()
    def __repr__(self) -> str:
        values = [f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr]  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(values)})"


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, item.name) for item in fields(value) if item.compare)
