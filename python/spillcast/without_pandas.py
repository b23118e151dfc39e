"""Starting without pandas, which nothing here uses.

pyarrow asks of the first list that it is given whether it is of pandas, and imports that to know: a
quarter of a second wherever it is installed. It goes on without where there is none.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Finds that pandas is not installed."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """None, for others to look. ModuleNotFoundError of pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("spillcast starts without pandas", name=name)
        return None


def start_without_pandas() -> None:
    """From now on pandas is not installed, for this process."""
    sys.meta_path.insert(0, _NoPandas())
