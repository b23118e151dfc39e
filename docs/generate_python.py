"""The reference of Python, of stub and docstrings: ``python docs/generate_python.py`` writes it."""

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spillcast
from spillcast import errors
from spillcast.cache.simulation import Curve
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.verdict import Forecasts
from spillcast.interactive import Run, record
from spillcast.lab.io_size import IoSizeSweep
from spillcast.profile import profile
from spillcast.profile.result import Profile
from spillcast.recording import Recording
from spillcast.storage import Storage

PAGE = Path(__file__).with_name("python-reference.md")
STUB = Path(spillcast.__file__).with_suffix(".pyi")
HEAD = """# Python reference

The calls of `spillcast`, their arguments and results; see [Python and notebooks](python.md) for
examples. Names that end in `_s` are in seconds, those in `_bytes` in bytes.
"""
#: What each call of the front door says of itself; ``record`` is a function of its own module.
CALLS = {
    "record": record,
    "forecast": type(spillcast.forecast).__call__,
    "profile": profile,
    "storage": type(spillcast.storage).__call__,
    "cache": type(spillcast.cache).__call__,
}
RESULTS = (
    *(Run, Recording, Forecast, Forecasts, Term, Caveat, Profile, Storage, Curve, IoSizeSweep),
    *(errors.SpillcastError, errors.InputError, errors.Refusal),
)
#: Of ``Question``, what only the command line and experiments give.
INTERNAL = frozenset(("without", "known", "rehearse", "watch", "reading"))


def page() -> str:
    """All of it: calls, options of a forecast, and results in this order."""
    parts = [HEAD, "## Calls\n"]
    for name, call in CALLS.items():
        parts += [f"### {name}\n", *(code(item) for item in signatures(name, call)), answer(call)]
        if name == "forecast":
            parts += ["Its options:\n", code("\n".join(options()))]
    parts.append("## Results and errors\n")
    for kind in RESULTS:
        parts += [f"### {kind.__name__}\n", answer(kind), *members(kind)]
    return "\n".join(parts)


def signatures(name: str, call: Any) -> list[str]:
    """As the stub has them; of what the stub imports, its own."""
    matches = [
        f"{name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or ast.Constant(None))}"
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return [re.sub(r": Unpack\[\w+\]", "", item) for item in matches] or [
        f"{name}{signature(call)}"
    ]


def options() -> list[str]:
    """The options of a forecast with their types and defaults, below the comments on them."""
    fields = {field.name: field for field in dataclasses.fields(Question)}
    lines, comments = [], list[str]()
    for line in map(str.strip, inspect.getsource(Question).splitlines()):
        name = line.partition(":")[0]
        if line.startswith("#:"):
            comments.append(line.replace("#:", "#"))
        elif name in fields and name not in INTERNAL:
            field = fields[name]
            lines += [*comments, f"{name}: {typed(field.type)} = {default(field.default)}"]
            comments = []
        elif name in fields:
            comments = []
    return lines


def members(kind: type) -> Iterator[str]:
    """Its fields, and what it says of its public properties and methods."""
    if dataclasses.is_dataclass(kind):
        fields = [f"{item.name}: {typed(item.type)}" for item in dataclasses.fields(kind)]
        yield code("\n".join(fields))
    for name, value in public(kind):
        if isinstance(value, classmethod):
            value = value.__func__
        if callable(value):
            yield code(f"{kind.__name__}.{name}{signature(value, bound=True)}")
            yield answer(value)
        else:
            yield f"`{kind.__name__}.{name}`: {answer(value)}"


def public(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of a class and of those of ours above it, each once."""
    seen: set[str] = set()
    for item in kind.__mro__:
        for name, value in vars(item).items() if item.__module__.startswith("spillcast") else ():
            is_one = inspect.isroutine(value) or inspect.isdatadescriptor(value)
            if not is_one and not hasattr(value, "func"):
                continue
            if not name.startswith("_") and name not in seen and inspect.getdoc(value):
                seen.add(name)
                yield name, value


def signature(call: Any, *, bound: bool = False) -> str:
    """As it is written, without quotes around types and without ``self``."""
    result = inspect.signature(call)
    if bound:
        result = result.replace(parameters=list(result.parameters.values())[1:])
    return bare(str(result))


def default(value: Any) -> str:
    """A value in the quotes of the code."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def typed(kind: Any) -> str:
    """A type as it is written."""
    return bare(kind if isinstance(kind, str) else inspect.formatannotation(kind))


def bare(text: str) -> str:
    """Types without their modules and the quotes around them."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text.replace("'", "").replace('"', ""))


def answer(thing: Any) -> str:
    """Its docstring as Markdown."""
    return textwrap.dedent(inspect.getdoc(thing) or "").strip() + "\n"


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())
