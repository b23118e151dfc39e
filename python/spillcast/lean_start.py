"""Starting without what pyarrow and numpy would import and nothing here uses.

pyarrow asks of the first list that it is given whether it is of pandas, and imports that to know: a
quarter of a second wherever it is installed. Its Parquet reader imports the clients of S3 and other
object stores, and its functions read their own documentation. It goes on without each of them.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_UNUSED = ("pandas", "pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs")
_READS_DOCUMENTATION = "pyarrow.vendored.docscrape"


class _NotInstalled:
    """Finds that what is not used is not installed."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """None, for others to look. ModuleNotFoundError of what is not used."""
        if name in _UNUSED:
            raise ModuleNotFoundError(f"spillcast starts without {name}", name=name)
        return None


def _no_documentation(_text: str) -> Mapping[str, Any]:
    return {"Parameters": ()}


def start_lean() -> None:
    """From now on what is not used is not installed, for this process."""
    sys.meta_path.insert(0, _NotInstalled())
    reader = ModuleType(_READS_DOCUMENTATION)
    vars(reader)["NumpyDocString"] = _no_documentation
    sys.modules.setdefault(_READS_DOCUMENTATION, reader)
