"""Temp files of PostgreSQL back to where they were: the steps, and what keeps them from it."""

from dataclasses import replace
from pathlib import Path

from spillcast.engines.move import Step
from spillcast.engines.postgres.move.situation import Situation
from spillcast.engines.postgres.move.tablespace import SETTING, Note, Scope, Tablespace
from spillcast.engines.postgres.quoting import identifier, literal
from spillcast.visible import shell_word


def revert_steps(
    tablespace: Tablespace,
    note: Note,
    scopes: list[Scope],
    facts: Situation,
    *,
    drop: bool = True,
) -> list[Step]:
    """The steps that put back what some scopes had, and take the tablespace away after the last.

    What others have set since stays. Without ``drop`` the tablespace stays too.
    """
    ours = [scope for scope in scopes if facts.settings.get(scope) == [tablespace.name]]
    steps = []
    if Scope() in ours:
        why = "Restore the server's own setting."
        statement = set_statement(Scope(), note.before["server"])
        steps.append(facts.step(why, statement))
    if Scope() in scopes:
        steps.append(reload_step(facts))
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
        steps += _drop_steps(tablespace, note, facts)
    return steps


def remaining(note: Note, scopes: list[Scope]) -> Note:
    """The note without some scopes; rights stay for the scopes that are left."""
    gone = set(map(str, scopes))
    before = {scope: names for scope, names in note.before.items() if scope not in gone}
    return replace(note, before=before, granted=note.granted if before else [])


def remove_directory(path: Path) -> Step:
    """The step that takes an empty directory away."""
    return Step(
        "Remove the directory, which was made for this move.", command=f"rmdir {shell_word(path)}"
    )


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


def reload_step(facts: Situation) -> Step:
    """The step after ALTER SYSTEM; done again where it may have been missed."""
    why = "Reload the settings; open sessions follow."
    return facts.step(why, "SELECT pg_reload_conf()")


def settings_after(
    facts: Situation, note: Note, scopes: list[Scope], name: str
) -> dict[Scope, list[str]]:
    """Who is set to what once some scopes have what they had before."""
    after = dict(facts.settings)
    for scope in scopes:
        names = note.before[str(scope)]
        if after.get(scope) == [name]:
            del after[scope]
            after |= {scope: names} if names is not None else {}
    return after


def in_use_by_settings(facts: Situation, after: dict[Scope, list[str]], name: str) -> list[str]:
    """Who is set to a tablespace, in words, and does not let it go."""
    who = [str(scope) for scope, names in after.items() if name in names]
    defaults = [str(scope) for scope, names in facts.defaults.items() if name in names]
    users = [f"{SETTING} of {', '.join(who)}"] if who else []
    return users + ([f"default_tablespace of {', '.join(defaults)}"] if defaults else [])


def comment_statement(name: str, text: str | None) -> str:
    """The statement that gives a tablespace its comment, or none for None."""
    word = "NULL" if text is None else literal(text)
    return f"COMMENT ON TABLESPACE {identifier(name)} IS {word}"


def _drop_steps(tablespace: Tablespace, note: Note, facts: Situation) -> list[Step]:
    path = Path(tablespace.location)
    why = "Drop the tablespace; the server refuses if anything is in it."
    drop = facts.step(why, f"DROP TABLESPACE {identifier(tablespace.name)}")
    if not note.made_directory:
        return [drop]
    why = "Mark the directory, by its sticky bit, as made for this move."
    mark = Step(why, command=f"chmod 1700 {shell_word(path)}")
    return [mark, drop, remove_directory(path)]
