"""Temp files of PostgreSQL to a tablespace in a directory, and back: steps and checks.

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
from spillcast.engines.postgres.connection import (
    Connection,
    identifier,
    literal,
    refused,
    row,
    shown_name,
)
from spillcast.engines.postgres.move.tablespaces import (
    SETTING,
    UNFINISHED,
    UNFINISHED_WITH_DIRECTORY,
    Note,
    Scope,
    Situation,
    Tablespace,
    user_name,
)
from spillcast.errors import (
    MoveBlocked,
    OptionInvalid,
    OutputExists,
    PathMissing,
    PathUnusable,
    PermissionDenied,
    ServerUnsuited,
)
from spillcast.text import shell_word

RELOAD = "Reload the settings; open sessions follow."


def revert_steps(
    tablespace: Tablespace,
    note: Note,
    scopes: list[Scope],
    facts: Situation,
    *,
    drop: bool = True,
) -> list[Step]:
    """The steps that restore the settings of some scopes, unless they were changed since.

    They take the tablespace away after the last scope, with ``drop``.
    """
    ours = [scope for scope in scopes if facts.settings.get(scope) == [tablespace.name]]
    steps = []
    if Scope() in ours:
        why = "Restore the server's own setting."
        statement = set_statement(Scope(), note.before["server"])
        steps.append(facts.step(why, statement))
    if Scope() in scopes:
        # Also where it was done already: the reload after it may be missing.
        steps.append(facts.step(RELOAD, "SELECT pg_reload_conf()"))
    statements = [
        set_statement(scope, note.before[str(scope)]) for scope in ours if scope != Scope()
    ]
    left = remaining(note, scopes)
    gone = set(note.granted) - set(left.granted)
    roles = [name for name in sorted(gone) if facts.roles is None or name in facts.roles]
    if roles:
        on, names = identifier(tablespace.name), ", ".join(map(identifier, roles))
        statements.append(f"REVOKE CREATE ON TABLESPACE {on} FROM {names}")
    if not left.before and not note.made_tablespace:
        statements.append(comment_statement(tablespace.name, note.comment))
    elif scopes:
        statements.append(comment_statement(tablespace.name, str(left)))
    if statements:
        why = "Restore the settings and rights, and the note of them."
        steps.append(facts.step(why, *statements))
    if drop and not left.before and note.made_tablespace:
        why = "Drop the tablespace; the server refuses if anything is in it."
        steps.append(facts.step(why, f"DROP TABLESPACE {identifier(tablespace.name)}"))
        if note.made_directory:
            why = "Mark the directory, by its sticky bit, as made for this move."
            mark = Step(why, f"chmod 1700 {shell_word(tablespace.location)}")
            steps.insert(-1, mark)
            steps.append(remove_directory(tablespace.location))
    return steps


def remaining(note: Note, scopes: list[Scope]) -> Note:
    """The note without some scopes; rights stay for the scopes that are left."""
    gone = set(map(str, scopes))
    before = {scope: names for scope, names in note.before.items() if scope not in gone}
    return replace(note, before=before, granted=note.granted if before else [])


def remove_directory(path: Path | str) -> Step:
    """The step that removes an empty directory."""
    return Step("Remove the directory, which was made for this move.", f"rmdir {shell_word(path)}")


def set_statement(scope: Scope | None, names: list[str] | None) -> str:
    """The statement that gives a scope its temp tablespaces, or none for None."""
    if scope is None:
        who = ""
    elif scope.role:
        who = f"ALTER ROLE {identifier(scope.role)} "
    else:
        who = f"ALTER DATABASE {identifier(scope.database)} " if scope.database else "ALTER SYSTEM "
    if names is None:
        return f"{who}RESET {SETTING}"
    return f"{who}SET {SETTING} = {', '.join(map(literal, names))}"


def used_by_settings(facts: Situation, note: Note, scopes: list[Scope], name: str) -> list[str]:
    """In words, whose settings name a tablespace after some scopes have been restored."""
    after = dict(facts.settings)
    for scope in scopes:
        names = note.before[str(scope)]
        if after.get(scope) == [name]:
            del after[scope]
            after |= {scope: names} if names is not None else {}
    who = [str(scope) for scope, names in after.items() if name in names]
    defaults = [str(scope) for scope, names in facts.defaults.items() if name in names]
    users = [f"{SETTING} of {', '.join(who)}"] if who else []
    return users + ([f"default_tablespace of {', '.join(defaults)}"] if defaults else [])


def comment_statement(name: str, text: str | None) -> str:
    """The statement that gives a tablespace its comment, or none for None."""
    word = "NULL" if text is None else literal(text)
    return f"COMMENT ON TABLESPACE {identifier(name)} IS {word}"


@dataclass(frozen=True)
class MoveRequest:
    """Whose temp files move where; ``scope`` is None for a session that sets it itself."""

    to: Path
    scope: Scope | None
    tablespace: str | None = None
    standbys_prepared: bool = False


@dataclass(frozen=True)
class Directory:
    """Describes a directory: whether it exists, comes from an unfinished move, and its owner."""

    exists: bool = False
    made: bool = False
    owner: str | None = None

    @classmethod
    def look(cls, path: Path) -> "Directory":
        """Look at a path of this machine. InputError where it is not a directory."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return cls()
        if not stat.S_ISDIR(status.st_mode):
            raise PathUnusable(f"--to {path} is not a directory")
        return cls(True, bool(status.st_mode & stat.S_ISVTX), user_name(status.st_uid))


def plan(request: MoveRequest, facts: Situation, lacking: list[str], directory: Directory) -> Move:
    """The steps of a move, of which none is left where all is done, and those of the way back.

    ``lacking`` are the roles that have to be granted CREATE.
    """
    existing = facts.at(request.to)
    name = _name(request, facts, existing)
    finished = existing is not None and existing.name == name
    old = existing.note if existing else None
    made = (
        old.made_directory if old else existing is None and (directory.made or not directory.exists)
    )
    unfinished = UNFINISHED_WITH_DIRECTORY if made else UNFINISHED
    note = old or Note(made, existing is None, existing.comment if existing else None)
    if request.scope is not None:
        now, key = facts.settings.get(request.scope), str(request.scope)
        before = note.before | ({} if now == [name] else {key: now})
        note = replace(note, before=before, granted=sorted({*note.granted, *lacking}))

    steps = []
    if existing is None:
        steps += _directory_steps(request.to, facts, directory)
        why = "Create a tablespace in it, under a name that marks the move as unfinished."
        statement = f"CREATE TABLESPACE {unfinished} LOCATION {literal(str(request.to))}"
        steps.append(facts.step(why, statement))
    statements = [] if finished else [f"ALTER TABLESPACE {unfinished} RENAME TO {identifier(name)}"]
    if note != old or not finished:
        statements.append(comment_statement(name, str(note)))
    if lacking:
        roles = ", ".join(map(identifier, lacking))
        statements.append(f"GRANT CREATE ON TABLESPACE {identifier(name)} TO {roles}")
    to_set = request.scope is not None and facts.settings.get(request.scope) != [name]
    if to_set and request.scope != Scope():
        statements.append(set_statement(request.scope, [name]))
    if statements:
        why = "Give the tablespace its name, a note of the previous settings, and its users."
        steps.append(facts.step(why, *statements))
    if request.scope == Scope():
        if to_set:
            statement = set_statement(request.scope, [name])
            steps.append(facts.step("Set it for the whole server.", statement))
        steps.append(facts.step(RELOAD, "SELECT pg_reload_conf()"))
    if request.scope is None:
        why = "In the session whose temp files should go there:"
        steps.append(Step(why, sql=(f"SET {SETTING} = {literal(name)}",)))

    after = replace(
        facts, settings=facts.settings | ({request.scope: [name]} if request.scope else {})
    )
    table = Tablespace(existing.oid if existing else 0, name, str(request.to), None)
    scopes = [request.scope] if request.scope and str(request.scope) in note.before else []
    back = revert_steps(table, note, scopes, after)
    whom = str(request.scope or "session")
    return Move("postgres", str(request.to), whom, steps, back, name)


def _name(request: MoveRequest, facts: Situation, existing: Tablespace | None) -> str:
    """The tablespace's name. InputError where another one has it."""
    existing_name = existing.name if existing and not existing.name.startswith(UNFINISHED) else None
    name = request.tablespace or existing_name or "spillcast_temp"
    if existing_name and name != existing_name:
        raise MoveBlocked(
            f"--tablespace {name}: the tablespace in {request.to} is called {existing_name}"
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


def _directory_steps(path: Path, facts: Situation, directory: Directory) -> list[Step]:
    steps, word = [], shell_word(path)
    if not directory.exists:
        why = (
            "Create the directory on the server's machine. The sticky bit marks it as made by "
            "spillcast."
        )
        steps.append(Step(why, f"mkdir -m 1700 {word}"))
    owner = facts.owner or "postgres"
    if owner != (directory.owner if directory.exists else user_name(os.geteuid())):
        why = "It has to belong to the server's user; one that holds files is left as it is."
        steps.append(Step(why, chown_empty(owner, path)))
    return steps


def chown_empty(owner: str, path: Path) -> str:
    """The command that gives a directory to a user, unless anything is in it."""
    give = f"chown {shell_word(owner)}: {{}} +"
    return f"find -H {shell_word(path)} -maxdepth 0 -empty -exec {give}"


def check_server(facts: Situation) -> None:
    """InputError where this server, at this end, cannot be changed by us."""
    if facts.elsewhere is not None:
        raise OptionInvalid(
            f"{facts.elsewhere}, and the directory has to be where it runs",
            "run this there, or print the commands without --apply",
        )
    if facts.standby:
        hint = "give the DSN of its primary; the directory has to be on both"
        raise ServerUnsuited("the server is a standby and cannot be changed", hint)
    if not facts.superuser:
        hint = "let a superuser run what is printed without --apply"
        for by in facts.superusers[:1]:
            hint = (
                f"connect as {by}, or let a superuser run: GRANT {shown_name(by)} TO "
                f"{shown_name(facts.user)}, and add options='-c role={by}' to the DSN; or {hint}"
            )
        raise PermissionDenied(
            f"role {facts.user} lacks SUPERUSER, which is needed to make or drop a tablespace", hint
        )


def check_move(connection: Connection, facts: Situation, request: MoveRequest) -> None:
    """InputError where a move could not be done, or would do harm."""
    check_server(facts)
    if facts.standbys and not request.standbys_prepared:
        names = ", ".join(facts.standbys)
        raise ServerUnsuited(
            f"a standby creates the tablespace too, and stops if the directory is missing: {names}",
            f"create {request.to} on each of them, owned by the server's user, then give "
            "--standbys-prepared",
        )
    if request.scope == Scope() and facts.source == "command line":
        raise ServerUnsuited(
            "temp_tablespaces is on the server's command line, which nothing else overrides",
            "remove it from there, or move roles or databases",
        )
    _check_directory(connection, facts, request)


def _check_directory(connection: Connection, facts: Situation, request: MoveRequest) -> None:
    path = request.to
    if facts.data_directory is not None:
        data = os.path.realpath(facts.data_directory)
        if os.path.commonpath([data, os.path.realpath(path)]) == data:
            raise OptionInvalid(f"--to {path} is inside the data directory {data}")
    parent = path.parent
    if not parent.is_dir():
        raise PathMissing(
            f"--to {path}: there is no directory {parent}", f"mkdir -p {shell_word(parent)}"
        )
    for seen in (parent, path):
        _check_seen(connection, seen, f"--to {path}")
    if facts.at(path) is not None:
        return
    directory = Directory.look(path)
    owner, root = facts.owner or "", os.geteuid() == 0
    if not directory.exists:
        mine = owner == user_name(os.geteuid())
        if not (root or (mine and os.access(parent, os.W_OK))):
            hint = f"as root: mkdir -m 700 {shell_word(path)} && {chown_empty(owner, path)}"
            raise PermissionDenied(f"--to {path}: cannot be created without being root", hint)
        return
    if directory.owner != owner and not (directory.made and root):
        hint = f"{chown_empty(owner, path)}, or name a directory in it that does not exist yet"
        raise PermissionDenied(f"--to {path} is not the server's own; it runs as {owner}", hint)
    if directory.owner == owner:
        query = "select coalesce(array_agg(name), '{}') from pg_ls_dir(%s) name"
        entries = list(row(connection, query, str(path))[0])
    else:
        entries = os.listdir(path)
    if entries:
        hint = f"name a directory in it, such as {path}/pg_temp"
        raise OutputExists(f"--to {path} is not empty: {', '.join(entries[:3])}", hint)


def _check_seen(connection: Connection, path: Path, role: str) -> None:
    """The server can reach a path, and finds there what we find."""
    # Where nothing is there the server says so only if it may pass through the directory above.
    query = "select floor(extract(epoch from modification))::bigint from pg_stat_file(%s, true)"

    def seen_s() -> int:
        return int(path.stat().st_mtime) if path.exists() else 0

    before_s = seen_s()
    hint = "it needs execute permission on every directory above"
    with refused(PermissionDenied, f"{role}: the server cannot reach {path}", hint):
        (modified_s,) = row(connection, query, str(path))
    if not before_s <= (modified_s or 0) <= seen_s():
        hint = "it may have a private /tmp, as with PrivateTmp of systemd"
        raise ServerUnsuited(f"{role}: the server sees another {path} than spillcast", hint)
