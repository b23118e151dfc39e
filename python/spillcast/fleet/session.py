"""A Spark session that answers within half a minute or fails; it leaves nothing behind."""

import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import (
    PackageMissing,
    ProgramMissing,
    ServiceUnavailable,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The limit for the master's answer after the start of Java.
_ANSWER_S = 20.0
#: The limit for the start of Java, and again for its session, on a busy machine.
_JAVA_S = 60.0
_CONNECT_S = 5.0
#: A master that has answered may need a while to start an executor.
_WORKERS_S = 60.0
_TICK_S = 0.1
#: Spark treats a configuration without an appender as missing, and sets up its own.
_QUIET = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""


@contextmanager
def session(master: str | None) -> Iterator["SparkSession"]:
    """A session on ``master``, this machine's cores if None; what Spark writes goes with it.

    InputError where pyspark or Java is missing, SpillcastError where the master does not answer or
    gives no worker.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError as error:
        raise PackageMissing("Spark needs pyspark", "pip install 'spillcast[spark]'") from error
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ProgramMissing("Spark needs Java 17 or newer", "install it, or set JAVA_HOME")
    master = master or "local[*]"
    _must_listen(master)
    with tempfile.TemporaryDirectory(prefix="spillcast-spark-") as folder:
        spark = _started(master, Path(folder))
        try:
            if master.startswith("spark://"):
                _must_have_workers(spark, master)
            yield spark
        except (PySparkException, Py4JError) as error:
            raise ServiceUnavailable(f"--master {master}: {_reason(error)}", _HOW) from error
        finally:
            _stop(spark)


def _reason(error: Exception) -> str:
    """The original error message: the last line of a traceback, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Refusal): ", line)]
    return (reasons or lines or [type(error).__name__])[-1 if reasons else 0]


def _must_listen(master: str) -> None:
    """Whether any of the masters accepts a connection, so that a wrong address fails at once."""
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
    raise ServiceUnavailable(
        f"--master {master}: does not answer: {why}",
        "start it, or look at its page for the address; --engine local needs none",
    )


def _started(master: str, folder: Path) -> "SparkSession":
    """Create the session in a thread, because a master that accepts and stays silent blocks it."""
    from pyspark import SparkContext
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
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.task.maxFailures": "2",
    }
    # pyspark reads the Python of the workers from the environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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
    with _stderr_to(folder / "java.log"):
        thread.start()
        _wait(lambda: not thread.is_alive() or SparkContext._gateway is not None, _JAVA_S)
        if _wait(lambda: bool(made) or _has_context(), _ANSWER_S):
            _wait(lambda: not thread.is_alive(), _JAVA_S)
    if made and isinstance(made[0], SparkSession):
        return made[0]
    why = "it accepts the connection and does not answer"
    if made:
        why = str(made[0]).strip().splitlines()[-1]
    _kill_java()
    raise ServiceUnavailable(f"--master {master}: does not answer: {why}", _HOW)


def _has_context() -> bool:
    """Whether Java has created the context: then the master has accepted the application."""
    from pyspark import SparkContext

    return getattr(SparkContext._active_spark_context, "_jsc", None) is not None


def _wait(condition: Callable[[], bool], limit_s: float) -> bool:
    """Wait for a condition; whether it held within the time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_TICK_S)
    return True


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect the stderr of processes that start within the block to a file."""
    saved = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


_HOW = "look at the master's log; --engine local needs none"


def _must_have_workers(spark: "SparkSession", master: str) -> None:
    """SpillcastError if the cluster provides no executor; the driver counts as one."""
    java: Any = spark.sparkContext._jsc
    if not _wait(lambda: java.sc().getExecutorMemoryStatus().size() > 1, _WORKERS_S):
        raise ServiceUnavailable(
            f"--master {master}: provides no worker within {_WORKERS_S:.0f} s",
            "start workers, or wait until others have ended",
        )


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
