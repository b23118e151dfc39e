"""Experiments: the same query on several storages, forecast and measured."""

#: Defaults of ``sweep io-size``, which its help shows without loading numpy: minimum and maximum
#: sizes of I/Os, and the block that they are multiples of; data and memory of the synthetic sort.
IO_SIZES_MIN, IO_SIZES_MAX, IO_BLOCK = "48K..1M", "48K..4M", "8K"
SORT_DATA, SORT_MEMORY = "1G", "32M"
#: The schema of the results of both sweeps, which have a ``kind``.
SWEEP_SCHEMA = "spillcast.sweep/1"
