"""What is mounted where a path lies: device, file system, mount point and options."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mounted:
    """A mount, as the kernel lists it."""

    #: As the kernel numbers it.
    device: str
    #: As mount(8) writes it.
    filesystem: str
    #: Whether it lies behind a network; None where nothing is known.
    network: bool | None
    point: str
    options: str
    #: Of a block device, with the model of its disk; None for others.
    device_name: str | None


def mounted(path: str) -> Mounted | None:
    """The mount that holds an absolute path, which may be gone; None where nothing is listed.

    As this process sees its mounts: in another's it may be told wrong.
    """
    from spillcast import _core

    entry = _core.mounted(path)
    if entry is None:
        return None
    device, filesystem, network, point, options, device_name = entry
    # Its many patterns take 9 ms to compile.
    from spillcast.redaction import struck_text

    options = struck_text(options)
    return Mounted(device, filesystem, network, str(point), options, device_name)
