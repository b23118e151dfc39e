"""The installed spillcast: its commit, and the packages of extras that are missing."""

import re
from functools import cache
from pathlib import Path

from spillcast.errors import InputError, PackageMissing

#: Extras for developers of spillcast.
_DEVELOPER_EXTRAS = {"dev", "docs"}
_REQUIRED = re.compile(r"([\w.-]++)[^;]*+;.*\bextra == ['\"]([\w-]+)['\"]")


@cache
def extras() -> dict[str, list[str]]:
    """Packages by extra, from the installed metadata; empty without metadata."""
    from importlib.metadata import PackageNotFoundError, requires

    packages: dict[str, list[str]] = {}
    try:
        required = requires("spillcast") or []
    except PackageNotFoundError:
        required = []
    for line in required:
        match = _REQUIRED.match(line)
        if match and match[1] != "spillcast" and match[2] not in _DEVELOPER_EXTRAS:
            packages.setdefault(match[2], []).append(match[1])
    return packages


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'spillcast[{extra}]'"


def lacking(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [package for package in extras()[extra] if not _installed(package)]


def wanted(error: ModuleNotFoundError) -> InputError | None:
    """The error for a failed import if an extra provides the module; None for other modules."""
    module = (error.name or "").partition(".")[0]
    for extra, packages in extras().items():
        for package in packages:
            if module == package.replace("-", "_"):
                message = f"this needs {package}, which is not installed"
                return PackageMissing(message, install(extra))
    return None


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


#: Contains the commit, with a + if files had changed.
FILE = Path(__file__).with_name("commit.txt")


def commit() -> str | None:
    """The commit that spillcast was built from; None if unknown."""
    try:
        return FILE.read_text().strip() or None
    except OSError:
        return None
