"""What a reader should know of an experiment."""

from typing import TypedDict


class Note(TypedDict):
    """A weakness of the result; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str
