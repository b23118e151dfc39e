"""The registry of engines: their names, and the only way to look one up.

An engine is a package with an ``ENGINE`` that declares its features, and a line in ``PACKAGES``;
engines of which one declaration says all share ``small.py``. A feature that an engine lacks is None
and is refused by name. Modules are imported when they are used. ``tests/paper_engine.py`` is an
engine in one file.
"""

from importlib import import_module
from typing import Any

from spillcast.engines.engine import Engine, Lab, WorkMemory
from spillcast.errors import ChoiceUnknown, EngineUnsupported

PACKAGES = {
    "oracle": "spillcast.engines.oracle",
    "duckdb": "spillcast.engines.small:DUCKDB",
    "postgres": "spillcast.engines.postgres",
    "mysql": "spillcast.engines.mysql:MYSQL",
    "mariadb": "spillcast.engines.mysql:MARIADB",
    "sort": "spillcast.engines.small:SORT",
    "datafusion": "spillcast.engines.small:DATAFUSION",
    "clickhouse": "spillcast.engines.clickhouse",
    "polars": "spillcast.engines.small:POLARS",
    "sqlite": "spillcast.engines.small:SQLITE",
    "dask": "spillcast.engines.small:DASK",
    "trino": "spillcast.engines.small:TRINO",
    "greenplum": "spillcast.engines.small:GREENPLUM",
    "spark": "spillcast.engines.small:SPARK",
    "sqlserver": "spillcast.engines.small:SQLSERVER",
    "databend": "spillcast.engines.small:DATABEND",
}

#: What engines offer, by the name of the field, in words.
_FEATURES = {
    "lab": "experiments are made on it",
    "record": "session of it is recorded",
    "move": "move of its temp files is known",
    "collect": "script collects its evidence",
    "notice": "notice about its processes is known",
}


def engine_of(name: str) -> Engine:
    """The engine of a name. InputError where there is none."""
    if name not in PACKAGES:
        raise ChoiceUnknown(f"--engine {name}: no such engine", f"there are: {', '.join(PACKAGES)}")
    package = PACKAGES[name]
    engine: Engine = _imported(package if ":" in package else f"{package}:ENGINE")
    return engine


def engines(*offering: str) -> list[Engine]:
    """All engines, or those that offer all that is named: ``lab``, ``record``, ``move``, ..."""
    return [
        engine
        for engine in map(engine_of, PACKAGES)
        if all(getattr(engine, feature) is not None for feature in offering)
    ]


def feature_of(engine: Engine, name: str) -> Any:
    """Import a feature of an engine, such as ``move``. InputError where it has none."""
    reference = getattr(engine, name)
    if reference is None:
        raise EngineUnsupported(
            f"--engine {engine.name}: {engine.label} does not support this: no {_FEATURES[name]}"
        )
    return _imported(reference)


def lab_of(name: str) -> type[Lab]:
    """The engine in experiments. InputError where none are made on it."""
    lab: type[Lab] = feature_of(engine_of(name), "lab")
    return lab


def work_memory_of(name: str) -> WorkMemory:
    """The engine's setting of work memory. InputError where none is known."""
    engine = engine_of(name)
    if engine.memory is None:
        raise EngineUnsupported(
            f"--engine {name}: {engine.label} does not support this: its work memory is not swept"
        )
    return engine.memory


def notices_of(pid: int) -> list[str]:
    """What engines say of a process before it is recorded, such as where its temp files are."""
    notices = (feature_of(engine, "notice")(pid) for engine in engines("notice"))
    return [notice for notice in notices if notice is not None]


def known_as(name: str) -> Engine | None:
    """The engine that meta.json calls so; None for a mere process, and for one not known here."""
    return next((engine for engine in engines() if name in (engine.name, *engine.aliases)), None)


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
