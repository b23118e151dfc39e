"""Addresses of files elsewhere, such as ``s3://bucket/folder``, which fsspec opens."""

import re
from typing import Any

from spillcast.errors import OptionInvalid, PackageMissing, first_line

_ADDRESS = re.compile(r"[a-z][a-z0-9+]+://")


def is_address(argument: str) -> bool:
    """Whether an argument names a file by fsspec, such as ``s3://logs/app-1``."""
    return _ADDRESS.match(argument) is not None


def open_filesystem(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path within it. InputError if there is none."""
    try:
        import fsspec
    except ImportError as error:
        raise PackageMissing(
            f"{address}: addresses need fsspec", "pip install 'spillcast[fleet]'"
        ) from error
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise OptionInvalid(f"{address}: {first_line(error)}") from error
    return filesystem, str(path).rstrip("/")
