"""The user's folders for kept files, as XDG defines them, and notices that appear once."""

import os
from pathlib import Path


def user_folder(variable: str, usual: str) -> Path:
    """Below what an environment variable names, or else ``usual`` of the home directory.

    RuntimeError for a user without a home.
    """
    folder = os.environ.get(variable, "")
    root = Path(folder) if os.path.isabs(folder) else Path.home() / usual
    return root / "spillcast"


def is_new(notice: str) -> bool:
    """Whether this user never got the notice, which counts as printed from now on.

    Where that cannot be kept, the notice is new each time.
    """
    try:
        path = user_folder("XDG_STATE_HOME", ".local/state") / "notices"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            file.seek(0)
            if notice in file.read().splitlines():
                return False
            file.write(notice + "\n")
    except (OSError, RuntimeError, UnicodeDecodeError):
        pass
    return True
