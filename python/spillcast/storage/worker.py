"""The process of a replay in a memory cgroup: plan on stdin, progress and result on stdout."""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillcast import _core
from spillcast.interruptible import run_interruptibly
from spillcast.storage.memory_group import NoMemoryGroup, join
from spillcast.storage.no_names import no_names_left


def main() -> None:
    """Run the replay. Everything is loaded before this process joins the group."""
    options = json.loads(sys.argv[1])
    steps = pa.ipc.open_stream(sys.stdin.buffer).read_next_batch()
    threading.Thread(target=_end_with_the_owner, daemon=True).start()
    directory, group = options.pop("directory"), Path(options.pop("group"))
    try:
        replay = _core.Probe(steps, directory, **options)
        join(group)
        watch = lambda: _send(progress=replay.progress())  # noqa: E731
        with no_names_left(Path(directory)):
            groups, changes, facts = run_interruptibly(replay.run, replay.cancel, watch)
    except NoMemoryGroup as error:
        _send(no_group=str(error))
    except ValueError as error:
        _send(value_error=str(error))
    except OSError as error:
        _send(os_error=[error.errno, error.strerror])
    else:
        rows, calls = (pa.record_batch(table).to_pylist() for table in (groups, changes))
        _send(rows=rows, changes=calls, facts=facts)


def _send(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def _end_with_the_owner() -> None:
    """Wait for the end of stdin, which the owner keeps open during its life."""
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
