"""The boot files of the guest: Debian's kernel, only unpacked, and an initramfs of programs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from bench.programs import BUILD, BUILDS, EXAMPLES, ROOT

BUILT = ROOT / "build" / "wide"
TARGET = "x86_64-unknown-linux-gnu"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
#: Commands by the Debian packages that provide them.
NEEDED = {
    "qemu-system-x86": "qemu-system-x86_64",
    "busybox-static": "busybox",
    "cpio": "cpio",
    "apt": "apt-get",
    "dpkg": "dpkg-deb",
}


def missing() -> list[str]:
    """Packages that are not installed."""
    return [package for package, command in NEEDED.items() if not shutil.which(command)]


def kernel() -> Path:
    """The newest kernel of Debian's cloud images; downloaded once."""
    if not list(BUILT.glob("boot/vmlinuz-*")):
        BUILT.mkdir(parents=True, exist_ok=True)
        about = _output("apt-cache", "depends", KERNEL_PACKAGE)
        result = re.search(r"Depends: (linux-image-\S+)", about)
        if result is None:
            raise SystemExit(f"{KERNEL_PACKAGE} is not known here: apt-get update")
        subprocess.run(["apt-get", "-qq", "download", result[1]], cwd=BUILT, check=True)
        for package in BUILT.glob("linux-image-*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, BUILT], check=True)
    return max(BUILT.glob("boot/vmlinuz-*"))


def initramfs() -> Path:
    """busybox, the two static programs, and the script that measures."""
    root, image = BUILT / "root", BUILT / "initrd.img"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "proc", "sys", "dev"):
        (root / folder).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin" / "busybox")
    for program in ("attach", "observed"):
        shutil.copy(_static_programs() / program, root / "bin" / program)
    shutil.copy(Path(__file__).with_name("guest.sh"), root / "init")
    (root / "init").chmod(0o755)
    names = _output("find", ".", cwd=root)
    packed = ["cpio", "--quiet", "-o", "-H", "newc", "-F", str(image)]
    subprocess.run(packed, cwd=root, input=names, text=True, check=True)
    return image


def _static_programs() -> Path:
    environment = {**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"}
    build = [*BUILD, *EXAMPLES, "--target", TARGET]
    subprocess.run(build, check=True, cwd=ROOT, env=environment)
    return BUILDS / TARGET / "release" / "examples"


def _output(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout
