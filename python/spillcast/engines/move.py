"""A move of temp files to other storage: its steps, how to go back, and what was seen there."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One thing to do, and why: a command of the shell, or statements for a client.

    Several statements of one step are one transaction.
    """

    why: str
    command: str | None = None
    sql: tuple[str, ...] = ()
    #: The command that runs ``sql`` from its standard input; empty where a session is open.
    client: str = ""
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        """Its keys in a document ``spillcast.move/1``."""
        action = {"sql": "\n".join(self.script)} if self.sql else {"command": self.command}
        return {**action, "done": self.done, "why": self.why}

    @property
    def script(self) -> tuple[str, ...]:
        """The statements as they are typed."""
        statements = tuple(f"{statement};" for statement in self.sql)
        return ("BEGIN;", *statements, "COMMIT;") if len(statements) > 1 else statements


@dataclass
class Move:
    """What is done, or is to be done, so that ``whom``'s temp files go to ``to``, and go back."""

    engine: str
    to: str
    whom: str
    steps: list[Step]
    #: What undoes it; for a move back, empty.
    revert: list[Step] = field(default_factory=list)
    tablespace: str | None = None
    applied: bool = False
    reverted: bool = False
    #: Temp files seen at the new place: ``session``, ``files``, ``bytes``; None if not looked.
    verified: dict[str, Any] | None = None
    #: What a reader should know, in words.
    warnings: list[str] = field(default_factory=list)
    #: What keeps the tablespace from being dropped, in words.
    left: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The document ``spillcast.move/1``."""
        return {
            "schema": "spillcast.move/1",
            "engine": self.engine,
            "to": self.to,
            "for": self.whom,
            "tablespace": self.tablespace,
            "applied": self.applied,
            "reverted": self.reverted,
            "steps": [step.to_json() for step in self.steps],
            "verified": self.verified,
            "revert": [step.to_json() for step in self.revert],
            "warnings": self.warnings,
            "left": self.left,
        }


def sql_literal(text: str) -> str:
    """A string constant of standard SQL."""
    return "'" + text.replace("'", "''") + "'"
