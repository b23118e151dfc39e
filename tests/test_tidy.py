"""Rules of the project: import direction, file openings and lengths, names, documented verbs."""

import ast
import re
import subprocess
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from spillcast.cli import VERBS
from spillcast.engines.registry import ENGINES, engines
from spillcast.evidence.other_engines import BYTE_COUNTERS, TEXTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "spillcast"
LINES_MAX = 500
#: Pages that are meant to be read in full, and so stay short.
PAGE_LINES_MAX = {"glossary.md": 40, "method.md": 300}


def python_files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


def offenders(paths, violations):
    """Each violation in these files, with its file."""
    return [f"{name(path)}: {violation}" for path in paths for violation in violations(path)]


@lru_cache(maxsize=1)
def nodes(code):
    """All AST nodes of a file's code."""
    return list(ast.walk(ast.parse(code)))


def test_imports_follow_the_layers():
    cli = pytest.importorskip("importlinter.cli")
    # The contracts are in pyproject.toml.
    assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


#: Their ``__getattr__`` imports modules of higher layers on first use.
DOORS = {("spillcast.recording", "spillcast.recording.recording")}


def test_there_are_no_import_cycles():
    # Imports for types and imports on first use count too.
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("spillcast", cache_dir=None)
    imports = {
        module: {
            name
            for name in graph.find_modules_directly_imported_by(module)
            if name != "spillcast" and (module, name) not in DOORS
        }
        for module in graph.modules
    }
    # CycleError names the modules of a cycle.
    TopologicalSorter(imports).prepare()


#: Modules that turn a workload and a storage into a forecast.
PROJECTING = ("workload/__init__", "workload/load", "workload/threads", "cpu",
              "projection", "interval", "project", "warnings", "remaining/model")  # fmt: skip


def test_a_projection_reads_no_file():
    def reading(path):
        for node in nodes(path.read_text()):
            names = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            module = getattr(node, "module", None) or ""
            for result in (module, *(f"{module}.{name}".strip(".") for name in names)):
                if re.match(
                    r"pyarrow|pathlib|spillcast\.(gate|engines|recording\.Recording)", result
                ):
                    yield result

    paths = [PACKAGE / "forecast" / f"{module}.py" for module in PROJECTING]
    assert offenders(paths, reading) == []


#: Attributes that may select an engine.
FEATURES = ("lab", "memory", "move", "collect", "io_size")
#: An engine's name in every form that may select it.
ENGINE_NAMES = {word for engine in engines() if any(getattr(engine, of) for of in FEATURES)
                for word in (engine.name, engine.label, *engine.aliases)}  # fmt: skip
#: Also the name of a plan node.
ENGINE_NAMES -= {"sort"}
#: Tables whose entries may be named after engines: verbs, and marks of evidence.
NAMED_TABLES = {"VERBS", "TEXTS", "BYTE_COUNTERS"}


def engines_chosen_by_name(code, *, imported=False):
    """Lines where an engine's name is a literal of the code, or its package is imported unless
    ``imported`` is set.

    A name selects nothing as a value in a document, in an example, or in the engine of an
    observation. Texts that contain a name are not names.
    """
    tree = nodes(code)
    reported = {id(value) for node in tree if isinstance(node, ast.Dict)
            for value in node.values}  # fmt: skip
    reported |= {id(node.args[0]) for node in tree if isinstance(node, ast.Call)
             and node.args and getattr(node.func, "id", "") == "ObservedEngine"}  # fmt: skip
    reported |= {id(part) for node in tree
             if isinstance(node, ast.keyword) and node.arg == "example"
             for part in ast.walk(node.value)}  # fmt: skip
    reported |= {id(part) for node in tree if isinstance(node, ast.Assign)
             and getattr(node.targets[0], "id", "") in NAMED_TABLES
             for part in ast.walk(node.value)}  # fmt: skip
    for node in tree:
        if (
            isinstance(node, ast.Constant)
            and node.value in ENGINE_NAMES
            and id(node) not in reported
        ):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module and not imported:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            packages = [f"spillcast.engines.{name}" for name in ENGINES]
            packages += [f"spillcast.engines.registry.{name.upper()}" for name in ENGINES]
            if any(name == of or name.startswith(f"{of}.") for name in names for of in packages):
                yield node.lineno


OUTSIDE = [
    path
    for path in python_files("python/spillcast")
    if path.relative_to(PACKAGE).parts[0] != "engines"
]


def test_no_engine_is_chosen_by_its_name_outside_its_package():
    # A verb or an option may be specific to one engine.
    assert offenders(
        OUTSIDE,
        lambda path: engines_chosen_by_name(path.read_text(), imported=path.parent.name == "cli"),
    ) == []  # fmt: skip


def test_a_choice_of_an_engine_by_name_is_detected():
    for code in (
        'if engine == "duckdb": pass',
        'if engine in ("oracle", other): pass',
        'match engine:\n    case "postgres": pass',
        'WAYS = {"duckdb": 1}',
        'ways["postgresql"]',
        'meta.get("postgres")',
        'Name = Literal["oracle"]',
        'def run(engine="duckdb"): pass',
        'name.startswith("PostgreSQL")',
        "from spillcast.engines.postgres.lab import PostgresLab",
        "from spillcast.engines import duckdb",
        "from spillcast.engines.clickhouse import rank",
        "from spillcast.engines.registry import DUCKDB",
    ):
        assert list(engines_chosen_by_name(code)), code


def beginning(text):
    """The text up to the end of the first multi-line string."""
    quotes = [match.end() for match in re.finditer('"""', text)]
    return text[: quotes[1]] if len(quotes) > 1 else text


def faults_of_a_file(path):
    """The faults of its first line and of its length."""
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(beginning(text)))
    if not docstring:
        yield "its first line does not say its job"
    elif not docstring.splitlines()[0].endswith((".", ":")) and "\n" not in docstring:
        yield "its first line is not a sentence"
    if (lines := len(text.splitlines())) > LINES_MAX:
        yield f"{lines} lines, at most {LINES_MAX}"


def test_a_file_is_short_and_its_first_line_says_its_job():
    assert (
        offenders(python_files("python", "lab", "tests", "bench", "release"), faults_of_a_file)
        == []
    )


def test_a_long_file_and_a_missing_first_line_are_detected(tmp_path):
    path = tmp_path / "file.py"
    for text in ("", "import os\n", '"""No sentence"""\n', '"""Long."""\n' + "\n" * LINES_MAX):
        path.write_text(text)
        assert len(list(faults_of_a_file(path))) == 1


def test_pages_read_in_full_are_short():
    lines = {page: len((ROOT / "docs" / page).read_text().splitlines()) for page in PAGE_LINES_MAX}
    assert {page: n for page, n in lines.items() if n > PAGE_LINES_MAX[page]} == {}


def test_words_of_the_glossary_occur_in_the_code():
    words = re.findall(r"^- \*\*(.+?)\*\*: ", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    sources = [*python_files("python", "lab"), *(ROOT / "crates").rglob("*.rs")]
    code = "\n".join(path.read_text() for path in sources).lower()
    missing = [word for word in words if not re.search(re.sub(r"\W", r"[\\W_]*", word), code)]
    assert missing == []


def nodes_that_may_hold(word, path):
    """The AST nodes of a file; none if the word does not occur in it."""
    return nodes(code) if word in (code := path.read_text()) else []


def read_by_name(path):
    """Lines where a file looks up a string in a variable called meta."""
    for node in nodes_that_may_hold("meta", path):
        looked, by = None, None
        if isinstance(node, ast.Subscript):
            looked, by = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            looked, by = (
                (node.func.value, node.args[0]) if node.func.attr == "get" else (None, None)
            )
        named = getattr(looked, "attr", getattr(looked, "id", ""))
        if named.endswith("meta") and isinstance(getattr(by, "value", None), str):
            yield node.lineno


def names_meta_json(path):
    """The lines of a file that name meta.json."""
    return [node.lineno for node in nodes_that_may_hold("meta", path)
            if isinstance(node, ast.Constant) and node.value == "meta.json"]  # fmt: skip


def test_meta_json_is_read_in_one_place():
    paths = python_files("python/spillcast")
    assert offenders(paths, read_by_name) == [], "recording/meta.py has a field for it"
    assert [path for path in paths if names_meta_json(path)] == [PACKAGE / "recording" / "meta.py"]


def test_a_lookup_by_name_is_detected(tmp_path):
    path = tmp_path / "reader.py"
    path.write_text(
        "a = run.meta['temp']\nb = meta.get('raw', {})\nc = run.meta.temp\nd = row['x']\n"
    )
    assert list(read_by_name(path)) == [1, 2]


def test_engines_whose_texts_are_refused_are_documented():
    page = (ROOT / "docs" / "reports.md").read_text()
    listed = {word for engine, *_ in (*BYTE_COUNTERS, *TEXTS)
              for word in re.findall(r"[A-Z]\w+", engine)}  # fmt: skip
    assert {word for word in listed if word not in page} == set(), "docs/reports.md, Not read"


def test_a_verb_is_documented():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    assert [verb for verb in VERBS if not re.search(rf"spillcast {verb}\b", text)] == []


def test_every_verb_has_a_module_and_every_module_is_used():
    modules = {module.removeprefix("spillcast.cli.") for module in VERBS.values()}
    texts = {path.stem: path.read_text() for path in (PACKAGE / "cli").glob("*.py")}
    assert modules - {"spillcast_lab.cli"} <= set(texts)
    helpers = set(texts) - modules - {"__init__"}
    assert [name for name in helpers if not any(f"spillcast.cli.{name} " in text
            for text in texts.values())] == []  # fmt: skip


def test_no_index_address_is_committed():
    # Concatenated, so that this file does not contain them.
    words = [
        "index" + "-url",
        "files.python" + "hosted.org",
        "pypi" + ".org/simple",
        "regi" + "stry+",
    ]
    command = ["git", "-C", str(ROOT), "grep", "--name-only", "--fixed-strings"]
    for word in words:
        result = subprocess.run([*command, word], capture_output=True, text=True)
        if result.returncode > 1:
            pytest.skip(f"git cannot search here: {result.stderr.strip()}")
        allowed = {"Makefile", "Cargo.lock"}
        assert set(result.stdout.splitlines()) <= allowed, word


#: Words that do not describe what they name.
EMPTY_NAMES = {
    "asked", "came", "felt", "found", "here", "mend", "one", "own", "said", "there", "told", "what",
}  # fmt: skip
#: At the end of a name.
UNIT = re.compile(r"_(s|ms|us|ns|bytes)$")
#: Keys of documents on disk, which stay.
KEYS = {"asked", "what", "told"}


#: Strings and comments of Python, which contain no identifiers.
TEXT = re.compile(
    r"""(?P<quotes>\"{3}|'{3})(?:\\[\s\S]|(?!(?P=quotes))[\s\S])*+(?P=quotes)"""
    r"""|"(?:\\.|[^"\\\n])*+"|'(?:\\.|[^'\\\n])*+'|\#.*"""
)
EMPTY_WORD = re.compile(rf"(?i)\b_*(?:{'|'.join(EMPTY_NAMES)})(?:{UNIT.pattern[:-1]})?_*\b")


def empty_names(code):
    """The banned identifiers of a file; keys of documents may be attributes."""
    # Nearly all files contain the words, but few in their code; parsing takes ten times as long.
    if not EMPTY_WORD.search(TEXT.sub("", code)):
        return
    for node in nodes(code):
        if isinstance(node, ast.Name | ast.arg):
            name = getattr(node, "id", None) or node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.alias):
            name = node.asname or node.name
        elif isinstance(node, ast.AnnAssign | ast.Attribute):
            name = getattr(node, "attr", "")
            if UNIT.sub("", name) in KEYS:
                continue
        else:
            continue
        if UNIT.sub("", name.strip("_").lower()) in EMPTY_NAMES:
            yield f"line {node.lineno}: {name}"


#: Comments and literals of Rust, which contain no identifiers, or an identifier.
RUST_TOKEN = re.compile(
    r"""//[^\n]*|r\#*"[\s\S]*?"\#*|b?"(?:\\[\s\S]|[^"\\])*"|'(?:\\.|[^'\\])'|(?P<name>\w+)"""
)


def empty_rust_names(path):
    """The banned identifiers of a Rust file, except for keys of documents."""
    for token in RUST_TOKEN.finditer(path.read_text()):
        word = (token["name"] or "").strip("_").lower()
        if word in EMPTY_NAMES - {"asked"}:
            yield token["name"]


def fields(code):
    """The keys of documents that a file declares."""
    for node in nodes(code):
        if isinstance(node, ast.ClassDef):
            yield from (
                f"line {part.lineno}: {part.target.id}"
                for part in node.body
                if isinstance(part, ast.AnnAssign) and UNIT.sub("", part.target.id) in KEYS
            )


def test_identifiers_name_what_they_hold():
    def violations(path):
        code = path.read_text()
        names = set(empty_names(code))
        return sorted(names - set(fields(code))) if names else []

    folders = "python", "lab/spillcast_lab", "tests", "bench", "docs", "release"
    assert offenders(python_files(*folders), violations) == []
    assert offenders(sorted((ROOT / "crates").rglob("*.rs")), empty_rust_names) == []


def test_a_meaningless_identifier_is_detected():
    for code in ("found = 1", "def f(one): pass", "class Told: pass", "a._own"):
        assert list(empty_names(code)), code
