"""A Spark session that answers within half a minute or says that it does not, and leaves nothing."""

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import InputError, SpillcastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From the start until a worker of the cluster must have answered.
_ANSWER_S = 25.0
_CONNECT_S = 5.0
_TICK_S = 0.1
_QUIET = "rootLogger.level = off\n"


@contextmanager
def session(master: str | None) -> Iterator["SparkSession"]:
    """A session on ``master``, this machine's cores if None; what Spark writes goes with it.

    InputError where pyspark or Java is missing, SpillcastError where the master does not answer or
    gives no worker.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise InputError("Spark needs pyspark", "pip install 'spillcast[spark]'") from error
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise InputError("Spark needs Java 17 or newer", "install it, or set JAVA_HOME")
    master = master or "local[*]"
    deadline = time.monotonic() + _ANSWER_S
    _must_listen(master)
    with tempfile.TemporaryDirectory(prefix="spillcast-spark-") as folder:
        spark = _started(master, Path(folder), deadline)
        try:
            if master.startswith("spark://"):
                _must_have_workers(spark, master, deadline)
            yield spark
        finally:
            _stop(spark)


def _must_listen(master: str) -> None:
    """Whether any of the masters takes a connection: a wrong address is told at once."""
    if not master.startswith("spark://"):
        return
    failure: Exception | None = None
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _CONNECT_S):
                return
        except (OSError, ValueError) as error:
            failure = error
    why = getattr(failure, "strerror", None) or failure
    raise SpillcastError(
        f"--master {master}: does not answer: {why}",
        "start it, or look at its page for the address; --engine local needs none",
    )


def _started(master: str, folder: Path, deadline: float) -> "SparkSession":
    """A session, made in a thread: a master that takes the connection and is silent blocks it."""
    from pyspark.sql import SparkSession

    quiet = folder / "log4j2.properties"
    quiet.write_text(_QUIET)
    options = {
        "spark.app.name": "spillcast",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={quiet.as_uri()} -Djava.io.tmpdir={folder} "
            f"-Dderby.system.home={folder} -XX:-UsePerfData"
        ),
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.task.maxFailures": "2",
    }
    made: list[Any] = []

    def make() -> None:
        builder = SparkSession.builder.master(master)
        for name, value in options.items():
            builder = builder.config(name, value)
        try:
            made.append(builder.getOrCreate())
        except Exception as error:
            made.append(error)

    thread = threading.Thread(target=make, name="spillcast-spark", daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(_TICK_S)
    if made and isinstance(made[0], SparkSession):
        return made[0]
    _kill_java()
    why = "it takes the connection and says nothing"
    if made:
        why = str(made[0]).strip().splitlines()[-1]
    raise SpillcastError(f"--master {master}: does not answer: {why}", _HOW)


_HOW = "look at the master's log; --engine local needs none"


def _must_have_workers(spark: "SparkSession", master: str, deadline: float) -> None:
    """SpillcastError where the cluster gives no executor; the driver itself counts as one."""
    java: Any = spark.sparkContext._jsc
    while java.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > deadline:
            raise SpillcastError(
                f"--master {master}: gives no worker within {_ANSWER_S:.0f} s",
                "start workers, or wait until others have ended",
            )
        time.sleep(_TICK_S)


def _stop(spark: "SparkSession") -> None:
    with suppress(Exception):
        spark.stop()
    _kill_java()


def _kill_java() -> None:
    """End the Java process that pyspark started, so that nothing of it is left."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        process.kill()
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
