"""Regular expressions of the package take linear time on any text."""

import ast
import pkgutil
import re
import re._parser as parser
import time
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import spillcast
from spillcast.evidence.recognise import EvidenceKind

PACKAGE = Path(spillcast.__file__).parent
#: What is repeated after the start of a match, as is that start itself, and a text that no pattern
#: matches for the end.
UNITS = (
    " ", "a", "0", "1", "-", ".", "'", '"', "(", "/", "\n", "a ", " -", "a.", "0,", "/*", "--\n",
    'r#"', "temp_blks", "''", '""', "\\'",
)  # fmt: skip
END = "\x00!"
SIZES = (20, 200, 1_000, 6_000)
#: For a linear pattern the longest text takes about 0.2 ms; for another one 200 ms.
CPU_S = 0.02
METHODS = ("match", "fullmatch", "search", "sub", "findall", "finditer", "split")


def modules():
    for module in pkgutil.walk_packages(spillcast.__path__, "spillcast."):
        if not module.name.endswith(("__main__", "_preload")):
            try:
                yield import_module(module.name)
            except ImportError:
                continue


def patterns_of(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_of(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from patterns_of(each)
    elif isinstance(value, EvidenceKind):
        yield from patterns_of(value.score)
    elif isinstance(value, FunctionType) and value.__closure__:
        yield from patterns_of([cell.cell_contents for cell in value.__closure__])


def constant(node):
    """A text of the source; interpolated parts become a word."""
    if isinstance(node, ast.JoinedStr):
        parts = [constant(part) if isinstance(part, ast.Constant) else "w" for part in node.values]
        return "".join(parts)
    return node.value if isinstance(node, ast.Constant) else None


def called_methods(text):
    """The methods of patterns that a text calls, by the name before the dot."""
    methods = {}
    for name, method in re.findall(r"\b(\w+)\.(\w+)\b", text):
        if method in METHODS:
            methods.setdefault(name, set()).add(method)
    return methods


def used():
    """Patterns with the methods they are used with."""
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    everywhere = called_methods("\n".join(texts))
    result = {}
    for module in modules():
        # A private name is used in its own file, and may name other patterns elsewhere.
        path = Path(module.__file__)
        of_file = called_methods(path.read_text() if path.suffix == ".py" else "")
        for name, value in vars(module).items():
            methods = of_file if name.startswith("_") else everywhere
            for pattern in patterns_of(value):
                result.setdefault(pattern, set()).update(methods.get(name, {"search"}))
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in METHODS
                and (written := constant(node.args[0])) is not None
            ):
                result.setdefault(re.compile(written), set()).add(node.func.attr)
    return result


def sample(tree):
    """A text that a part of a pattern matches, or nearly matches."""
    result = ""
    for op, given in tree:
        name = str(op)
        if name in ("LITERAL", "NOT_LITERAL"):
            result += chr(given) if name == "LITERAL" else ("a" if given != ord("a") else "b")
        elif name == "ANY":
            result += "a"
        elif name == "IN":
            result += in_class(given)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            result += sample(given[2]) * given[0]
        elif name == "SUBPATTERN":
            result += sample(given[3])
        elif name == "ATOMIC_GROUP":
            result += sample(given)
        elif name == "BRANCH":
            result += sample(given[1][0])
    return result


def in_class(items):
    negated = str(items[0][0]) == "NEGATE"
    written = "".join(
        re.escape(chr(value))
        if str(op) == "LITERAL"
        else f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        if str(op) == "RANGE"
        else {
            "CATEGORY_DIGIT": r"\d",
            "CATEGORY_SPACE": r"\s",
            "CATEGORY_WORD": r"\w",
            "CATEGORY_NOT_DIGIT": r"\D",
            "CATEGORY_NOT_SPACE": r"\S",
            "CATEGORY_NOT_WORD": r"\W",
        }[str(value)]
        for op, value in items
        if str(op) != "NEGATE"
    )
    item = re.compile(f"[{'^' * negated}{written}]")
    return next(
        (char for char in "a 0-." + "".join(map(chr, range(9, 127))) if item.match(char)), ""
    )


def beginnings(tree, before=""):
    """The text before each unbounded repetition, and a text that it repeats."""
    for op, given in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            if given[1] is parser.MAXREPEAT or given[1] > 1_000:
                yield before, sample(given[2])
            yield from beginnings(given[2], before)
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from beginnings(given if name == "ATOMIC_GROUP" else given[3], before)
        elif name == "BRANCH":
            for branch in given[1]:
                yield from beginnings(branch, before)
        before += sample([(op, given)])


def repeated_possessively(tree):
    """What each possessive repetition of a pattern repeats."""
    for op, given in tree:
        name = str(op)
        if name == "POSSESSIVE_REPEAT":
            yield given[2]
        for part in parts(given):
            yield from repeated_possessively(part)


def parts(given):
    """The patterns within what an operator is given, which are at any depth of lists."""
    if isinstance(given, parser.SubPattern):
        yield given
    elif isinstance(given, list | tuple):
        for each in given:
            yield from parts(each)


def cpu_s(call, text):
    def once():
        began = time.process_time()
        call(text)
        return time.process_time() - began

    return min(once() for _ in range(2))


def slow_text(pattern, methods):
    """The start and the repeated unit of a text that takes this pattern too long, if any."""
    binary = isinstance(pattern.pattern, bytes)
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    for before, unit in dict.fromkeys(beginnings(tree)):
        for each in dict.fromkeys((*UNITS, *filter(None, (unit, before)))):
            for size in SIZES:
                text = before + each * (size // len(each)) + END
                given = text.encode("latin-1", "replace") if binary else text
                for method in sorted(methods):
                    call = getattr(pattern, method)
                    if method == "sub":
                        call = lambda text: pattern.sub(b"" if binary else "", text)  # noqa: E731
                    if method == "finditer":
                        call = lambda text: list(pattern.finditer(text))  # noqa: E731
                    if cpu_s(call, given) > CPU_S:
                        return method, before, each, size
    return None


def test_what_is_repeated_possessively_matches_whole_or_not_at_all():
    # Where a repeated group fails after its first character, Python before 3.11.5 does not step
    # back (github.com/python/cpython/issues/106052): Debian 12 has 3.11.2. An atomic group does.
    # `(?>(?:...)*)` is no way out: it takes 100 bytes of memory for each repetition.
    assert list(repeated_possessively(parser.parse(r"a(?:b|(?:c|d)*+e)")))
    whole = [[op] for op in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "ATOMIC_GROUP")]
    assert {
        pattern.pattern
        for pattern in used()
        for item in repeated_possessively(parser.parse(pattern.pattern, pattern.flags))
        if [str(op) for op, _ in item] not in whole
    } == set()


@pytest.mark.nightly
def test_every_pattern_takes_linear_time():
    result = used()
    assert len(result) > 100
    slow = {pattern.pattern: slow_text(pattern, methods) for pattern, methods in result.items()}
    assert {pattern: text for pattern, text in slow.items() if text is not None} == {}


def test_a_slow_pattern_is_detected():
    for written in (r"(a+)+b", r"\s*\s*x", r"  (\S.*?)\s{2,}(\d+)"):
        assert slow_text(re.compile(written), {"match"}) is not None
    assert slow_text(re.compile(r"\s+x"), {"search"}) is not None
    assert slow_text(re.compile(r"\s+x"), {"match"}) is None
