"""Commands that enable pg_stat_statements, for self-hosted servers and those of cloud providers."""

import re
from collections.abc import Mapping

from spillcast.engines.postgres import Connection, literal, row
from spillcast.text import shell_word

EXTENSION = "pg_stat_statements"
_PRELOAD, _TIMES = "shared_preload_libraries", "track_io_timing"
_PREFIXES = "select array_agg(split_part(name, '.', 1)) from pg_settings where name ~ '[.]'"
_AURORA = "select exists (select from pg_proc where proname = 'aurora_version')"
_SHIPPED = "select exists (select from pg_available_extensions where name = %s)"
_BOOTSTRAP = "select rolname from pg_roles where oid = 10"
#: The role that may change settings, by the prefix of settings that only a provider's servers have.
_ROLES = {"rds": "rds_superuser", "cloudsql": "cloudsqlsuperuser", "azure": "azure_pg_admin"}
_GOOGLE = (
    "# name all flags that the instance has: the command replaces them",
    "gcloud sql instances patch INSTANCE --database-flags=track_io_timing=on",
)
_DEBIAN = re.compile(r"/var/lib/postgresql/(?P<version>[\d.]+)/(?P<name>[\w.-]+)/?")


def enable_commands(connection: Connection, shown: str, settings: Mapping[str, str]) -> list[str]:
    """Lines for a shell. A comment names the necessary role, and whether the server is restarted.

    ``shown`` is the DSN without its password.
    """
    prefixes = set(row(connection, _PREFIXES)[0] or ())
    provider = next((prefix for prefix in _ROLES if prefix in prefixes), None)
    cluster = "cluster-" if provider == "rds" and row(connection, _AURORA)[0] else ""
    changed = {}
    # A loaded extension has settings, which are visible even if the list of libraries is hidden.
    if EXTENSION not in prefixes:
        if _PRELOAD not in settings:
            # A list without the currently loaded libraries would unload them.
            return [
                f"# as a role with pg_monitor, spillcast postgres prints how: it keeps {_PRELOAD}"
            ]
        libraries = [library.strip(' "') for library in settings[_PRELOAD].split(",")]
        changed[_PRELOAD] = ",".join([*filter(None, libraries), EXTENSION])
    if settings.get(_TIMES) == "off":
        changed[_TIMES] = "on"
    if provider is None:
        shown = _as_superuser(connection, shown)
    create = _psql(shown, f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
    role = _ROLES[provider] if provider else "a superuser"
    effect = "restarts the server, which ends all sessions" if _PRELOAD in changed else "no restart"
    head = f"# as {role}; {effect}"
    if provider is None:
        return [head, *_self_hosted(connection, changed, shown), create]
    if provider == "azure":
        return [head, *_azure(changed), create]
    if provider == "cloudsql":
        # Cloud SQL always loads the extension.
        return [head, *(_GOOGLE if _TIMES in changed else ()), create]
    return [head, *_amazon(changed, cluster), create]


def _as_superuser(connection: Connection, shown: str) -> str:
    """The DSN of a superuser: ``shown``, or ``shown`` with the superuser that initdb created."""
    if connection.info.parameter_status("is_superuser") == "on":
        return shown
    from psycopg.conninfo import make_conninfo

    return make_conninfo(shown, user=row(connection, _BOOTSTRAP)[0])


def _psql(shown: str, *statements: str) -> str:
    words = [f"psql {shell_word(shown)}"]
    for statement in statements:
        # Double quotes are easier to read if the shell expands nothing in them.
        is_plain = not re.search(r"""["$`!\\]""", statement)
        words.append(f'-c "{statement}"' if is_plain else f"-c {shell_word(statement)}")
    return " ".join(words)


def _self_hosted(connection: Connection, changed: Mapping[str, str], shown: str) -> list[str]:
    """The lines for a self-hosted server."""
    lines = []
    version = connection.info.server_version // 10_000
    if not row(connection, _SHIPPED, EXTENSION)[0]:
        lines.append(
            f"# install PostgreSQL's contrib package first, such as postgresql{version}-contrib"
        )
    if not changed:
        return lines
    if row(connection, "select current_setting('allow_alter_system', true)")[0] == "off":
        assignments = ", ".join(f"{name} = '{value}'" for name, value in changed.items())
        effect = "restart" if _PRELOAD in changed else "reload"
        return [*lines, f"# set in postgresql.conf, then {effect}: {assignments}"]
    statements = [
        f"ALTER SYSTEM SET {name} = {', '.join(map(literal, value.split(',')))}"
        for name, value in changed.items()
    ]
    if _PRELOAD not in changed:
        return [*lines, _psql(shown, *statements, "SELECT pg_reload_conf()")]
    return [*lines, _psql(shown, *statements), _restart(connection)]


def _restart(connection: Connection) -> str:
    """The command that restarts the server: Debian's, or PostgreSQL's own."""
    import psycopg

    try:
        (directory,) = row(connection, "show data_directory")
    except psycopg.Error:
        return "pg_ctl restart -D DATA_DIRECTORY"
    debian = _DEBIAN.fullmatch(directory)
    if debian is not None:
        return f"sudo pg_ctlcluster {debian['version']} {debian['name']} restart"
    return f"pg_ctl restart -D {shell_word(directory)}"


def _amazon(changed: Mapping[str, str], cluster: str) -> list[str]:
    if not changed:
        return []
    import json

    parameters = [
        {
            "ParameterName": name,
            "ParameterValue": {"on": "1"}.get(value, value),
            "ApplyMethod": "pending-reboot" if name == _PRELOAD else "immediate",
        }
        for name, value in changed.items()
    ]
    lines = [
        f"aws rds modify-db-{cluster}parameter-group --db-{cluster}parameter-group-name GROUP "
        f"--parameters {shell_word(json.dumps(parameters))}"
    ]
    if _PRELOAD in changed:
        lines.append("aws rds reboot-db-instance --db-instance-identifier INSTANCE")
    return lines


def _azure(changed: Mapping[str, str]) -> list[str]:
    server = "--resource-group GROUP --server-name SERVER"
    verb = f"az postgres flexible-server parameter set {server}"
    lines = [
        "# keep what azure.extensions has",
        f"{verb} --name azure.extensions --value {EXTENSION.upper()}",
        *(f"{verb} --name {name} --value {shell_word(value)}" for name, value in changed.items()),
    ]
    if _PRELOAD in changed:
        lines.append("az postgres flexible-server restart --resource-group GROUP --name SERVER")
    return lines
