"""Notices that a user gets once: the user's state folder keeps those that were printed."""

from spillcast.recording.user_folder import user_folder


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
