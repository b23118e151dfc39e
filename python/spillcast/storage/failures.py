"""Errors of the measurement of a directory, as messages."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spillcast.errors import (
    OptionInvalid,
    PathMissing,
    PathUnusable,
    SpaceExhausted,
    SystemFailed,
)


@contextmanager
def failures_as_errors(directory: Path) -> Iterator[None]:
    """Turn errors of the core while it measures ``directory`` into errors with a remedy."""
    if not directory.exists():
        raise PathMissing(
            f"{directory}: there is no such directory", "create it on the storage you mean"
        )
    if not directory.is_dir():
        raise PathUnusable(f"{directory} is not a directory", "give one on the storage to probe")
    try:
        yield
    except ValueError as error:
        raise OptionInvalid(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            hint = "free some space, name a larger directory, or give a smaller --budget"
            raise SpaceExhausted(f"{directory}: filled up during the probe", hint) from error
        if error.errno == errno.EDQUOT:
            hint = "see it with quota(1); have it raised, or name a directory of another owner"
            raise SpaceExhausted(f"{directory}: the disk quota there is used up", hint) from error
        raise SystemFailed(error.strerror or str(error)) from error
