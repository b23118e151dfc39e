"""The steps and checks of a move of temp files to a tablespace in a directory, and back.

``revert_steps`` can undo a move after any of its steps, even if spillcast was killed. It needs no
file: the comment of the tablespace has the previous settings. The comment is written in the
transaction that changes settings and privileges, or before ALTER SYSTEM, which cannot run in a
transaction. Until then, the name of the tablespace marks it as spillcast's and shows whether
spillcast created the directory. Before the tablespace exists, the sticky bit of the directory shows
that; CREATE TABLESPACE removes it.

Only the server can decide whether a tablespace is in use: DROP TABLESPACE checks under a lock.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast.engines.move import Move, Step
from spillcast.engines.postgres import Connection, identifier, literal, refused, row, shown_name
from spillcast.engines.postgres.move.tablespaces import (
    SETTING,
    UNFINISHED,
    UNFINISHED_WITH_DIRECTORY,
    Scope,
    ServerFacts,
    Tablespace,
    TablespaceNote,
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
    note: TablespaceNote,
    scopes: list[Scope],
    facts: ServerFacts,
    *,
    drop: bool = True,
) -> list[Step]:
    """The steps that restore the settings of ``scopes``, unless they were changed since.

    With ``drop``, the steps for the last scope also drop the tablespace.
    """
    ours = [scope for scope in scopes if facts.settings.get(scope) == [tablespace.name]]
    steps = []
    if Scope() in ours:
        why = "Restore the server's own setting."
        statement = set_statement(Scope(), note.before["server"])
        steps.append(facts.step(why, statement))
    if Scope() in scopes:
        # Done even if the setting is already restored: the reload after it may be missing.
        steps.append(facts.step(RELOAD, "SELECT pg_reload_conf()"))
    statements = [
        set_statement(scope, note.before[str(scope)]) for scope in ours if scope != Scope()
    ]
    left = remaining(note, scopes)
    revoked = sorted(set(note.granted) - set(left.granted))
    roles = [name for name in revoked if facts.roles is None or name in facts.roles]
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


def remaining(note: TablespaceNote, scopes: list[Scope]) -> TablespaceNote:
    """The note without some scopes; privileges remain as long as any scope does."""
    restored = set(map(str, scopes))
    before = {scope: names for scope, names in note.before.items() if scope not in restored}
    return replace(note, before=before, granted=note.granted if before else [])


def remove_directory(path: Path | str) -> Step:
    """The step that removes an empty directory."""
    return Step("Remove the directory, which was made for this move.", f"rmdir {shell_word(path)}")


def set_statement(scope: Scope | None, names: list[str] | None) -> str:
    """The statement that sets the temp tablespaces of a scope; resets them if ``names`` is None."""
    if scope is None:
        alter = ""
    elif scope.role:
        alter = f"ALTER ROLE {identifier(scope.role)} "
    elif scope.database:
        alter = f"ALTER DATABASE {identifier(scope.database)} "
    else:
        alter = "ALTER SYSTEM "
    if names is None:
        return f"{alter}RESET {SETTING}"
    return f"{alter}SET {SETTING} = {', '.join(map(literal, names))}"


def used_by_settings(
    facts: ServerFacts, note: TablespaceNote, scopes: list[Scope], name: str
) -> list[str]:
    """Names the settings that still refer to a tablespace when ``scopes`` are restored."""
    after = dict(facts.settings)
    for scope in scopes:
        names = note.before[str(scope)]
        if after.get(scope) == [name]:
            del after[scope]
            after |= {scope: names} if names is not None else {}
    users = []
    for setting, by_scope in ((SETTING, after), ("default_tablespace", facts.defaults)):
        if using := [str(scope) for scope, names in by_scope.items() if name in names]:
            users.append(f"{setting} of {', '.join(using)}")
    return users


def comment_statement(name: str, text: str | None) -> str:
    """The statement that sets the comment of a tablespace, or removes it if ``text`` is None."""
    comment = "NULL" if text is None else literal(text)
    return f"COMMENT ON TABLESPACE {identifier(name)} IS {comment}"


@dataclass(frozen=True)
class MoveRequest:
    """The options of a move; ``scope`` is None for a session that changes its own setting."""

    to: Path
    scope: Scope | None
    tablespace: str | None = None
    standbys_prepared: bool = False


@dataclass(frozen=True)
class Directory:
    """A directory: whether it exists, whether an unfinished move ``made`` it, and its owner."""

    exists: bool = False
    made: bool = False
    owner: str | None = None

    @classmethod
    def look(cls, path: Path) -> "Directory":
        """Checks a path on this machine. InputError if it is not a directory."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return cls()
        if not stat.S_ISDIR(status.st_mode):
            raise PathUnusable(f"--to {path} is not a directory")
        return cls(True, bool(status.st_mode & stat.S_ISVTX), user_name(status.st_uid))


def plan(
    request: MoveRequest, facts: ServerFacts, lacking: list[str], directory: Directory
) -> Move:
    """The remaining steps of a move, and the steps that undo it.

    ``lacking`` are the roles that need the privilege CREATE.
    """
    existing = facts.at(request.to)
    name = _name(request, facts, existing)
    old = existing.note if existing else None
    made = (
        old.made_directory if old else existing is None and (directory.made or not directory.exists)
    )
    unfinished = UNFINISHED_WITH_DIRECTORY if made else UNFINISHED
    note = old or TablespaceNote(made, existing is None, existing.comment if existing else None)
    if request.scope is not None:
        now, key = facts.settings.get(request.scope), str(request.scope)
        before = note.before | ({} if now == [name] else {key: now})
        note = replace(note, before=before, granted=sorted({*note.granted, *lacking}))

    steps, statements = list[Step](), list[str]()
    if existing is None:
        steps += _directory_steps(request.to, facts, directory)
        why = "Create a tablespace in it, under a name that marks the move as unfinished."
        statement = f"CREATE TABLESPACE {unfinished} LOCATION {literal(str(request.to))}"
        steps.append(facts.step(why, statement))
    if existing is None or existing.name != name:
        statements.append(f"ALTER TABLESPACE {unfinished} RENAME TO {identifier(name)}")
    if note != old or statements:
        statements.append(comment_statement(name, str(note)))
    if lacking:
        roles = ", ".join(map(identifier, lacking))
        statements.append(f"GRANT CREATE ON TABLESPACE {identifier(name)} TO {roles}")
    steps += _setting_steps(request.scope, name, facts, statements)

    after = replace(
        facts, settings=facts.settings | ({request.scope: [name]} if request.scope else {})
    )
    table = Tablespace(existing.oid if existing else 0, name, str(request.to), None)
    scopes = [request.scope] if request.scope and str(request.scope) in note.before else []
    back = revert_steps(table, note, scopes, after)
    whom = str(request.scope or "session")
    return Move("postgres", str(request.to), whom, steps, back, name)


def _setting_steps(
    scope: Scope | None, name: str, facts: ServerFacts, statements: Sequence[str]
) -> Iterator[Step]:
    """The steps that execute ``statements`` and set the tablespace for a scope, or a session."""
    is_set = scope is None or facts.settings.get(scope) == [name]
    setting = [] if scope is None or is_set else [set_statement(scope, [name])]
    # PostgreSQL does not allow ALTER SYSTEM in a transaction.
    is_of_server = scope == Scope()
    if together := [*statements, *([] if is_of_server else setting)]:
        why = "Give the tablespace its name, a note of the previous settings, and its users."
        yield facts.step(why, *together)
    if is_of_server:
        if setting:
            yield facts.step("Set it for the whole server.", *setting)
        yield facts.step(RELOAD, "SELECT pg_reload_conf()")
    if scope is None:
        why = "In the session whose temp files should go there:"
        yield Step(why, sql=(f"SET {SETTING} = {literal(name)}",))


def _name(request: MoveRequest, facts: ServerFacts, existing: Tablespace | None) -> str:
    """The name of the move's tablespace. InputError if another tablespace has it."""
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


def _directory_steps(path: Path, facts: ServerFacts, directory: Directory) -> list[Step]:
    steps = []
    if not directory.exists:
        why = (
            "Create the directory on the server's machine. The sticky bit marks it as made by "
            "spillcast."
        )
        steps.append(Step(why, f"mkdir -m 1700 {shell_word(path)}"))
    owner = facts.owner or "postgres"
    if owner != (directory.owner if directory.exists else user_name(os.geteuid())):
        why = "It has to belong to the server's user; one that holds files is left as it is."
        steps.append(Step(why, chown_empty(owner, path)))
    return steps


def chown_empty(owner: str, path: Path) -> str:
    """The command that changes the owner of a directory, provided that it is empty."""
    chown = f"chown {shell_word(owner)}: {{}} +"
    return f"find -H {shell_word(path)} -maxdepth 0 -empty -exec {chown}"


def check_server(facts: ServerFacts) -> None:
    """InputError if spillcast cannot change this server from this machine as this role."""
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
        for superuser in facts.superusers[:1]:
            grant = f"GRANT {shown_name(superuser)} TO {shown_name(facts.user)}"
            hint = (
                f"connect as {superuser}, or let a superuser run: {grant}, and add "
                f"options='-c role={superuser}' to the DSN; or {hint}"
            )
        raise PermissionDenied(
            f"role {facts.user} lacks SUPERUSER, which is needed to make or drop a tablespace", hint
        )


def check_move(connection: Connection, facts: ServerFacts, request: MoveRequest) -> None:
    """InputError if a move would fail or do harm."""
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


def _check_directory(connection: Connection, facts: ServerFacts, request: MoveRequest) -> None:
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
    for checked in (parent, path):
        _check_same_path(connection, checked, f"--to {path}")
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


def _check_same_path(connection: Connection, path: Path, option: str) -> None:
    """InputError if the server cannot reach a path, or reaches a different file by it."""
    # If the path does not exist, the server says so only if it may search the parent directory.
    query = "select floor(extract(epoch from modification))::bigint from pg_stat_file(%s, true)"

    def our_modified_s() -> int:
        return int(path.stat().st_mtime) if path.exists() else 0

    before_s = our_modified_s()
    hint = "it needs execute permission on every directory above"
    with refused(PermissionDenied, f"{option}: the server cannot reach {path}", hint):
        (modified_s,) = row(connection, query, str(path))
    if not before_s <= (modified_s or 0) <= our_modified_s():
        hint = "it may have a private /tmp, as with PrivateTmp of systemd"
        raise ServerUnsuited(f"{option}: the server sees another {path} than spillcast", hint)
