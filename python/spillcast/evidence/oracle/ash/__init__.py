"""Active Session History: exports of any shape are read, and profiled without ASH's bias."""

from spillcast.evidence.oracle.ash.executions import Execution as Execution
from spillcast.evidence.oracle.ash.executions import (
    check_single_execution as check_single_execution,
)
from spillcast.evidence.oracle.ash.executions import executions as executions
from spillcast.evidence.oracle.ash.executions import hints as hints
from spillcast.evidence.oracle.ash.profile import ON_CPU as ON_CPU
from spillcast.evidence.oracle.ash.profile import WallClock as WallClock
from spillcast.evidence.oracle.ash.profile import profile_ash as profile_ash
from spillcast.evidence.oracle.ash.profile import wall_clock_share as wall_clock_share
from spillcast.evidence.oracle.ash.reader import ALL as ALL
from spillcast.evidence.oracle.ash.reader import Ash as Ash
from spillcast.evidence.oracle.ash.reader import Chosen as Chosen
from spillcast.evidence.oracle.ash.reader import no_samples as no_samples
from spillcast.evidence.oracle.ash.reader import read_ash as read_ash

__all__ = [
    "ALL",
    "ON_CPU",
    "Ash",
    "Chosen",
    "Execution",
    "WallClock",
    "check_single_execution",
    "executions",
    "hints",
    "no_samples",
    "profile_ash",
    "read_ash",
    "wall_clock_share",
]
