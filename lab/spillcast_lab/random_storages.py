"""Storages with random parameters, the same for the same seed."""

from collections.abc import Sequence
from math import exp, log
from random import Random

from spillcast.lab.storages import Emulated
from spillcast_lab.kernel_slowed import KernelSlowed

#: With the seven emulations that are always there, a third of the slow storages is the kernel's.
EMULATED, KERNEL_SLOWED = 5, 6
LATENCY_S = (0.0001, 0.003)
S_PER_BYTE = (0.5e-6 / 1024, 10e-6 / 1024)
SERVERS = (1, 8)
SIGMA = (0.1, 0.8)
READ_AHEAD_BYTES = (8 << 10, 32 << 10, 128 << 10)


def random_storages(seed: int) -> Sequence[Emulated | KernelSlowed]:
    """Emulations, the first with several servers and costs a byte, and what the kernel slows."""
    chance = Random(f"storages {seed}")
    emulated = [_emulated(chance, number) for number in range(EMULATED)]
    return [*emulated, *(_kernel_slowed(chance, number) for number in range(KERNEL_SLOWED))]


def _emulated(chance: Random, number: int) -> Emulated:
    """Half have a cost a byte, half a queue, half a spread; parameters are log-uniform."""
    queued, by_size, spread = (chance.random() < 0.5 for _ in range(3))
    servers = chance.randint(*SERVERS) if queued else None
    if number == 0:
        by_size, servers = True, chance.randint(2, SERVERS[1])
    return Emulated(
        f"random {number + 1}",
        read_s=_log_uniform(chance, *LATENCY_S),
        write_s=_log_uniform(chance, *LATENCY_S),
        s_per_byte=_log_uniform(chance, *S_PER_BYTE) if by_size else 0.0,
        servers=servers,
        sigma=chance.uniform(*SIGMA) if spread else 0.0,
    )


def _kernel_slowed(chance: Random, number: int) -> KernelSlowed:
    """By turns writes are waited for, and written back later; half limit bytes as well."""
    by_size = chance.random() < 0.5
    return KernelSlowed(
        f"kernel {number + 1}",
        read_s=_log_uniform(chance, *LATENCY_S),
        write_s=_log_uniform(chance, *LATENCY_S),
        s_per_byte=_log_uniform(chance, *S_PER_BYTE) if by_size else 0.0,
        synchronous=number % 2 == 0,
        read_ahead_bytes=chance.choice(READ_AHEAD_BYTES),
    )


def _log_uniform(chance: Random, least: float, most: float) -> float:
    return exp(chance.uniform(log(least), log(most)))
