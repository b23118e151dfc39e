"""Temp files of PostgreSQL to a tablespace in a directory, and back: the steps.

Every step leaves a state from which ``revert_plan`` knows the way back, also after a kill; no file
keeps it. The earlier settings are in the comment of the tablespace, which is written in the
transaction that changes settings and rights, or before ALTER SYSTEM, which takes part in no
transaction. Until the comment exists, the name of the tablespace marks it as spillcast's and says
who made the directory. Until the tablespace exists, the sticky bit of the directory does; CREATE
TABLESPACE removes it.

The server decides whether a tablespace is in use: DROP TABLESPACE checks under a lock, as no query
before it could.
"""

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.engines.move import Move, Step
from spillcast.engines.postgres.move.back import (
    comment_statement,
    reload_step,
    revert_steps,
    set_statement,
)
from spillcast.engines.postgres.move.situation import Situation
from spillcast.engines.postgres.move.tablespace import (
    SETTING,
    UNFINISHED,
    UNFINISHED_WITH_DIRECTORY,
    Note,
    Scope,
    Tablespace,
)
from spillcast.engines.postgres.quoting import identifier, literal
from spillcast.errors import MoveBlocked, OptionInvalid, PathUnusable
from spillcast.visible import shell_word

NAME = "spillcast_temp"


@dataclass(frozen=True)
class Wish:
    """Whose temp files go where; ``scope`` is None for a session that sets it itself."""

    to: Path
    scope: Scope | None
    tablespace: str | None = None
    standbys_prepared: bool = False


@dataclass(frozen=True)
class Directory:
    """Describes a directory: whether it exists, comes from an unfinished move, and its owner."""

    exists: bool = False
    made: bool = False
    uid: int | None = None

    @classmethod
    def look(cls, path: Path) -> "Directory":
        """Look at a path of this machine. InputError where it is not a directory."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return cls()
        if not stat.S_ISDIR(status.st_mode):
            raise PathUnusable(f"--to {path} is not a directory")
        return cls(exists=True, made=bool(status.st_mode & stat.S_ISVTX), uid=status.st_uid)


def plan(wish: Wish, facts: Situation, lacking: list[str], directory: Directory) -> Move:
    """The steps of a move, of which none is left where all is done, and those of the way back.

    ``lacking`` are the roles that have to be granted CREATE.
    """
    existing = facts.at(wish.to)
    name = _name(wish, facts, existing)
    finished = existing is not None and existing.name == name
    old = existing.note if existing else None
    made = (
        old.made_directory if old else existing is None and (directory.made or not directory.exists)
    )
    note = old or Note(made, existing is None, existing.comment if existing else None)
    note = _noted(note, wish.scope, facts, name, lacking)

    steps = []
    if existing is None:
        steps += _directory_steps(wish.to, facts, directory)
        steps.append(_create(wish.to, facts, made))
    statements = (
        [] if finished else [f"ALTER TABLESPACE {_unfinished(made)} RENAME TO {identifier(name)}"]
    )
    if note != old or not finished:
        statements.append(comment_statement(name, str(note)))
    if lacking:
        roles = ", ".join(map(identifier, lacking))
        statements.append(f"GRANT CREATE ON TABLESPACE {identifier(name)} TO {roles}")
    to_set = wish.scope is not None and facts.settings.get(wish.scope) != [name]
    if to_set and wish.scope != Scope():
        statements.append(set_statement(wish.scope, [name]))
    if statements:
        why = "Give the tablespace its name, a note of the previous settings, and its users."
        steps.append(facts.step(why, *statements))
    if wish.scope == Scope():
        if to_set:
            statement = set_statement(wish.scope, [name])
            steps.append(facts.step("Set it for the whole server.", statement))
        steps.append(reload_step(facts))
    if wish.scope is None:
        why = "In the session whose temp files should go there:"
        steps.append(Step(why, sql=(f"SET {SETTING} = {literal(name)}",)))

    after = replace(facts, settings=facts.settings | ({wish.scope: [name]} if wish.scope else {}))
    table = Tablespace(existing.oid if existing else 0, name, str(wish.to), None)
    scopes = [wish.scope] if wish.scope and str(wish.scope) in note.before else []
    back = revert_steps(table, note, scopes, after)
    return Move("postgres", str(wish.to), whom(wish.scope), steps, back, name)


def _noted(
    note: Note, scope: Scope | None, facts: Situation, name: str, lacking: list[str]
) -> Note:
    """The note with what is so now, before the move."""
    if scope is None:
        return note
    now, key = facts.settings.get(scope), str(scope)
    before = note.before | ({} if now == [name] else {key: now})
    return replace(note, before=before, granted=sorted({*note.granted, *lacking}))


def _name(wish: Wish, facts: Situation, existing: Tablespace | None) -> str:
    """The tablespace's name. InputError where another one has it."""
    existing_name = existing.name if existing and not existing.name.startswith(UNFINISHED) else None
    name = wish.tablespace or existing_name or NAME
    if existing_name and name != existing_name:
        raise MoveBlocked(
            f"--tablespace {name}: the tablespace in {wish.to} is called {existing_name}"
        )
    other = facts.named(name)
    if other is not None and other != existing:
        hint = f"give another name with --tablespace; {name} is in {other.location}"
        raise MoveBlocked(f"there is a tablespace {name} elsewhere", hint)
    for unfinished in filter(None, map(facts.named, (UNFINISHED, UNFINISHED_WITH_DIRECTORY))):
        if unfinished != existing:
            raise MoveBlocked(
                f"a move to {unfinished.location} was interrupted and is in the way",
                f"end it with --to {unfinished.location} and --apply or --revert",
            )
    if name.startswith(("pg_", UNFINISHED)) or not name or len(name.encode()) > 63:
        raise OptionInvalid(f"--tablespace '{name}' cannot be a tablespace's name")
    return name


def _unfinished(made_directory: bool) -> str:
    return UNFINISHED_WITH_DIRECTORY if made_directory else UNFINISHED


def _directory_steps(path: Path, facts: Situation, directory: Directory) -> list[Step]:
    steps, word = [], shell_word(path)
    if not directory.exists:
        why = (
            "Create the directory on the server's machine. The sticky bit marks it as made by "
            "spillcast."
        )
        steps.append(Step(why, command=f"mkdir -m 1700 {word}"))
    owner = facts.owner or "postgres"
    if user_id(owner) != (directory.uid if directory.exists else os.geteuid()):
        why = "It has to belong to the server's user; one that holds files is left as it is."
        steps.append(Step(why, command=chown_empty(owner, path)))
    return steps


def chown_empty(owner: str, path: Path) -> str:
    """The command that gives a directory to a user, unless anything is in it."""
    give = f"chown {shell_word(owner)}: {{}} +"
    return f"find -H {shell_word(path)} -maxdepth 0 -empty -exec {give}"


def user_id(owner: str) -> int | None:
    """The number of a user of this machine; None where there is none of the name."""
    import pwd

    try:
        return int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        return None


def _create(path: Path, facts: Situation, made: bool) -> Step:
    why = "Create a tablespace in it, under a name that marks the move as unfinished."
    statement = f"CREATE TABLESPACE {_unfinished(made)} LOCATION {literal(str(path))}"
    return facts.step(why, statement)


def whom(scope: Scope | None) -> str:
    """A scope as ``--for`` has it."""
    return "session" if scope is None else str(scope)
