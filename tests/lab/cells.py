"""All cells that can be verified, and the storages they may run on."""

from spillcast_lab.matrix import STORAGES, all_cells, random_storages

ENGINES = ("duckdb", "postgres")
ALL = all_cells(ENGINES)
MADE_UP = [cell for cell in ALL if not cell.workload.suite]
TPCH, TPCDS = ([cell for cell in ALL if cell.workload.suite == name] for name in ("tpch", "tpcds"))
EVERYWHERE = [*STORAGES, *random_storages(0)]
FAST = ("disk", "tmpfs")
