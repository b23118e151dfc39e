"""The platforms that are built for, and what each promises of the C library."""

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
        """As ``--platform`` names it."""
        return f"{self.machine}-{'musl' if self.musl else 'gnu'}"

    @property
    def target(self) -> str:
        """Rust's name."""
        return f"{self.machine}-unknown-linux-{'musl' if self.musl else 'gnu'}"

    @property
    def zig_target(self) -> str:
        """The same with the oldest glibc that it is linked for."""
        return self.target if self.musl else f"{self.target}.2.17"

    @property
    def tag(self) -> str:
        """The wheel's promise: glibc 2.17 (RHEL 7) or musl 1.2 (Alpine 3.13), or later ones."""
        return "musllinux_1_2" if self.musl else "manylinux_2_17"


PLATFORMS = [Platform(machine, musl) for machine in ("x86_64", "aarch64") for musl in (False, True)]
#: The newest symbol version that a library of a manylinux wheel may ask for.
GLIBC_MAX = (2, 17)


def native() -> Platform:
    """What this Python runs on."""
    return Platform(platform.machine(), platform.libc_ver()[0] != "glibc")


def requested(names: list[str]) -> list[Platform]:
    """The platforms by name; ``native`` is this one, none at all means all."""
    known = {item.name: item for item in PLATFORMS} | {"native": native()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"{unknown[0]}: no such platform; there are {', '.join(known)}")
    return [known[name] for name in names] or PLATFORMS


def missing_toolchain(item: Platform) -> str | None:
    """Why nothing can be built for a platform here, in a line; None where it can."""
    installed = _rustup("list", "--installed")
    lacking = installed is not None and item.target not in installed.split()
    if lacking and _rustup("add", item.target) is None:
        return f"Rust's library for {item.target} cannot be had: rustup target add {item.target}"
    return None


def _rustup(*arguments: str) -> str | None:
    """What ``rustup target`` says; None where it fails. Rust of a distribution has none."""
    try:
        done = subprocess.run(["rustup", "target", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
