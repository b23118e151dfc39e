"""Starting without what pyarrow and numpy would import and nothing here uses.

pyarrow asks of the first list that it is given whether it is of pandas, and imports that to know: a
quarter of a second wherever it is installed. Its Parquet reader imports the clients of S3 and other
object stores, its groups whole datasets, and its functions read their own documentation. It goes on
without each of them. Of arrays both ask whether they are of numpy.ma, which is answered without it.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_UNUSED = (
    "dateutil", "pandas", "pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs",
    "pyarrow.dataset",
)  # fmt: skip
_READS_DOCUMENTATION = "pyarrow.vendored.docscrape"
_MASKED = "numpy.ma"


class _Finder:
    """Finds that what is not used is not installed, and numpy.ma for later."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """None, for others to look. ModuleNotFoundError of what is not used."""
        if name in _UNUSED:
            raise ModuleNotFoundError(f"spillcast starts without {name}", name=name)
        if name != _MASKED:
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None:
            found.loader = _Later(found.loader)  # type: ignore[assignment]
        return found


class _Later:
    """Loads numpy.ma when it is used."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unloaded(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""


class _Unloaded(ModuleType):
    """numpy.ma before it is loaded: asked whether arrays are of its, it says that none is."""

    class MaskedArray:
        """Nothing is one."""

    @staticmethod
    def is_masked(_array: Any) -> bool:
        """Nothing is."""
        return False

    isMaskedArray = is_masked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # So asks who imports it.
            raise AttributeError(name)
        assert self.__spec__ is not None, "it was found"
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def _no_documentation(_text: str) -> Mapping[str, Any]:
    return {"Parameters": ()}


def start_lean() -> None:
    """From now on what is not used is not installed, for this process."""
    sys.meta_path.insert(0, _Finder())
    reader = ModuleType(_READS_DOCUMENTATION)
    vars(reader)["NumpyDocString"] = _no_documentation
    sys.modules.setdefault(_READS_DOCUMENTATION, reader)
