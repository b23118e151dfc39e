"""What the registry of engines says, elsewhere: ``python docs/generate_engines.py`` writes it.

The recorder reads the names of temp files from temp_names.tsv, without Python.
"""

from pathlib import Path

from spillcast.engines.engine import LikelyName
from spillcast.engines.registry import engines

TEMP_NAMES = Path(__file__).parents[1] / "crates/spillcast-core/src/capture/temp_names.tsv"


def temp_names() -> str:
    """A line for each name: the engine, what the file contains, how sure it is, the pattern."""
    rows = [
        (engine.name, kind, "likely" if isinstance(name, LikelyName) else "certain", name)
        for engine in engines()
        for kind, name in engine.temp_names.items()
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


if __name__ == "__main__":
    TEMP_NAMES.write_text(temp_names())
