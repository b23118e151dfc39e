"""Inspects a wheel: the platform of its tag, and the symbols that its libraries need."""

import re
import subprocess
import tempfile
import zipfile
from pathlib import Path

from release.build import TOOLS
from release.platforms import GLIBC_MAX, Platform
from release.wheel import check_whole


def check(wheel: Path, item: Platform) -> str:
    """Returns the result as a line. AssertionError names the broken promise."""
    check_whole(wheel)
    tag = _audited_tag(wheel)
    assert tag == f"{item.tag}_{item.machine}", f"{wheel.name}: auditwheel says {tag}"
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        libraries = sorted(Path(folder).rglob("*.so*"))
        newest = max((glibc_asked(library) for library in libraries), default=(0, 0))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    assert newest <= (GLIBC_MAX if not item.musl else (0, 0)), f"{wheel.name}: GLIBC_{newest}"
    asks = "no glibc" if item.musl else f"GLIBC_{newest[0]}.{newest[1]}"
    packed = wheel.stat().st_size / 1e6
    return f"{tag}, newest symbol of {asks}, {packed:.1f} MB, {size / 1e6:.1f} MB installed"


def glibc_asked(library: Path) -> tuple[int, ...]:
    """The newest version of glibc's symbols that a library needs; (0, 0) for none."""
    answer = subprocess.run(["readelf", "-VW", library], capture_output=True, text=True, check=True)
    output = re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", answer.stdout)
    return max((tuple(map(int, item.split("."))) for item in output), default=(0, 0))


def _audited_tag(wheel: Path) -> str:
    """The most compatible platform tag that auditwheel accepts for a wheel."""
    command = [TOOLS / "auditwheel", "show", wheel]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    words = " ".join(answer.stdout.split())
    result = re.search(r'following platform tag: "([^"]+)"', words)
    assert result, f"{wheel.name}: {words or answer.stderr}"
    return result[1]
