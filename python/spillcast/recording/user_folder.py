"""The user's own folders for what spillcast keeps, as XDG has them."""

import os
from pathlib import Path


def user_folder(variable: str, usual: str) -> Path:
    """Below what an environment variable names, or else ``usual`` of the home directory.

    RuntimeError for a user without a home.
    """
    folder = os.environ.get(variable, "")
    root = Path(folder) if os.path.isabs(folder) else Path.home() / usual
    return root / "spillcast"
