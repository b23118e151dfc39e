"""The platforms of the builds, and the C library that each promises."""

import platform
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """A processor and a C library."""

    machine: str
    musl: bool

    @property
    def name(self) -> str:
        """The name for ``--platform``."""
        return f"{self.machine}-{'musl' if self.musl else 'gnu'}"

    @property
    def target(self) -> str:
        """Rust's target name."""
        return f"{self.machine}-unknown-linux-{'musl' if self.musl else 'gnu'}"

    @property
    def zig_target(self) -> str:
        """The same with the oldest glibc that it links against."""
        return self.target if self.musl else f"{self.target}.2.17"

    @property
    def tag(self) -> str:
        """The tag of the wheel: at least glibc 2.17 (RHEL 7) or musl 1.2 (Alpine 3.13)."""
        return "musllinux_1_2" if self.musl else "manylinux_2_17"


PLATFORMS = [Platform(machine, musl) for machine in ("x86_64", "aarch64") for musl in (False, True)]
#: The newest symbol version that a library of a manylinux wheel may need.
GLIBC_MAX = (2, 17)


def native() -> Platform:
    """The platform of this Python."""
    return Platform(platform.machine(), platform.libc_ver()[0] != "glibc")


def requested(names: list[str]) -> list[Platform]:
    """The platforms by name; ``native`` is this one, and no name means all."""
    known = {item.name: item for item in PLATFORMS} | {"native": native()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"{unknown[0]}: no such platform; there are {', '.join(known)}")
    return [known[name] for name in names] or PLATFORMS


def missing_toolchain(item: Platform) -> str | None:
    """Why a platform cannot be built here, as a line; None if it can."""
    installed = _rustup("list", "--installed")
    lacking = installed is not None and item.target not in installed.split()
    if lacking and _rustup("add", item.target) is None:
        return f"Rust's library for {item.target} cannot be had: rustup target add {item.target}"
    return None


def _rustup(*arguments: str) -> str | None:
    """The output of ``rustup target``; None if it fails, as with Rust of a distribution."""
    try:
        done = subprocess.run(["rustup", "target", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
