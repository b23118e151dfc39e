"""Elapsed time of I/O that a disk and the flash in front of it serve in parallel."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Read and write throughput of a device, in bytes per second."""

    name: str
    read_bytes_per_s: float
    write_bytes_per_s: float


@dataclass(frozen=True)
class Traffic:
    """Bytes that flash and disk read and write."""

    flash_read: float = 0.0
    flash_write: float = 0.0
    disk_read: float = 0.0
    disk_write: float = 0.0

    @property
    def read(self) -> float:
        """Bytes that are read from either."""
        return self.flash_read + self.disk_read

    def elapsed_s(self, flash: Device, disk: Device) -> float:
        """The longer of the two: T = max(flash, disk), each its reads and then its writes."""
        flash_s = (
            self.flash_read / flash.read_bytes_per_s + self.flash_write / flash.write_bytes_per_s
        )
        disk_s = self.disk_read / disk.read_bytes_per_s + self.disk_write / disk.write_bytes_per_s
        return max(flash_s, disk_s)
