"""A directory on a block device, wherever the temp directory of the tests is."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

PLACES = (tempfile.gettempdir(), "/var/tmp", str(Path(__file__).parents[2]))


@contextmanager
def directory_on_disk():
    """``path``, and ``device`` as major:minor; skips if no directory is on a block device."""
    for place in PLACES:
        number = os.stat(place).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        if Path("/sys/dev/block", device).exists():
            with tempfile.TemporaryDirectory(prefix="spillcast-test-", dir=place) as name:
                yield SimpleNamespace(path=Path(name), device=device, iterdir=Path(name).iterdir)
            return
    pytest.skip("none of the usual places is on a block device")
