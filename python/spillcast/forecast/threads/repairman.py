"""Threads that share cores: while one waits for I/O, the others go on, as far as there are cores.

Each is in turn on one of m cores and in I/O. That is the machine repairman, a closed queueing
network: where all threads together burn the time c and wait for I/O for the time L, one takes
c + L, P threads with a core each take (c + L) / P, and without latency it is c / min(P, m).
"""

from math import exp, floor, log


def repairman_s(threads: float, cores: int, cpu_s: float, latency_s: float) -> float:
    """How long they take to burn so much CPU time and to wait so long for I/O, all together.

    Between whole numbers of threads it is in proportion.
    """
    least = floor(threads)
    below_s = _whole_s(least, cores, cpu_s, latency_s)
    if threads == least:
        return below_s
    above_s = _whole_s(least + 1, cores, cpu_s, latency_s)
    return below_s + (threads - least) * (above_s - below_s)


def _whole_s(threads: int, cores: int, cpu_s: float, latency_s: float) -> float:
    if threads <= cores or cpu_s <= 0:
        return (cpu_s + latency_s) / threads
    if latency_s <= 0:
        return cpu_s / cores
    # Logarithms of the odds of k threads on the cores or waiting for one, against none.
    odds = [0.0]
    for k in range(1, threads + 1):
        odds.append(odds[-1] + log((threads - k + 1) * cpu_s / (min(k, cores) * latency_s)))
    most = max(odds)
    weights = [exp(odd - most) for odd in odds]
    on_cores = sum(weight * min(k, cores) for k, weight in enumerate(weights)) / sum(weights)
    return cpu_s / on_cores
