"""Secrets masked in arguments, values of the environment, connection strings and SQL.

What is kept or shown of others' command lines and statements passes here. It masks too much
rather than too little: what is named like a secret counts as one, and so does what looks like one.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

MASK = "***"
#: Between arguments: a blank to all patterns, and no letter of a quoted value.
_BETWEEN = "\x1f"
#: How names of secrets end: of options, keys, variables of the environment and columns.
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])(?:db|user|my|root)?_?(?:pass|pwd|pw)|auth|token"
    r"|authorization|secret|credentials?|private[_-]?key|(?<![a-z])sig(?:nature)?"
    r"|(?:api|access|secret|account|encryption|session|master)_?-?key)s?"
)
_QUOTED = (
    r"(?:[a-z]|u&)?'(?:[^'\\\x1f]|''|\\.)*'|\"(?:[^\"\\\x1f]|\"\"|\\.)*\""
    r"|\$(?:[a-z]\w*)?\$[^\x1f]*?\$(?:[a-z]\w*)?\$"
)
#: ``name=value``, ``"name": "value"``; without quotes a value ends at a blank.
_NAMED = rf"({_NAME}['\"\])]*\s*(?:=>|:=|[=:])\s*)(?:{_QUOTED}|\S+)"
#: ``--name value``.
_OPTION = rf"((?<![\w-])--?(?:[\w-]*[_-])?{_NAME}\s+)(?:{_QUOTED}|[^\s-]\S*)"
#: ``password '...'``, ``identified by ...``, functions that are given a password or a key.
_SQL = (
    r"((?<!['\"])\b(?:password|secret|identified\s+(?:with\s+\S+\s+)?(?:by|as)(?:\s+values)?)\s*"
    r"|\b(?:password|crypt|hmac|(?:en|de)crypt\w*|pgp_\w+)\s*\(\s*+(?:[^,()\x1f]*,\s*)?)"
    rf"(?:{_QUOTED})"
)
#: Functions and engines, most of ClickHouse: an address or a mode, and then keys or a password.
_REMOTE = (
    r"(\b(?:(?:iceberg|deltalake|hudi|paimon)(?:s3|azure)?|s3|azure(?:blobstorage)?|gcs|oss|cosn"
    r"|remote(?:secure)?|mysql|(?:materialized)?postgresql|mongodb|redis|externaldistributed"
    r"|(?:aes_|try)?(?:en|de)crypt(?:_mysql)?)(?:cluster|queue)?\s*\(\s*+"
    r"(?:'[^'\x1f]*+'|[^'(),\x1f]*+(?:\([^()\x1f]*+\))?+)\s*+,\s*+)"
    r"(?:'(?:[^'\\\x1f]|''|\\.)*'|[^'()\x1f]|\((?:[^()\x1f]|\([^()\x1f]*+\))*+\))+"
)
_IDENTIFIED = r"(\bidentified\s+by\s+)(?!values\b)[^\s'\"*;]+"
#: ``scheme://user:secret@host``, to the last @ since a secret may hold one; a token stands alone.
#: Lengths are bounded, or a text of many addresses would take the square of its length.
_ADDRESS = r"(://)([^:/@\s]{0,200}:)[^\s'\"]{0,4000}@"
_ADDRESS_OF_TOKEN = r"(://)[\w-]{16,}(?=@)"
#: ``user/secret@service`` of Oracle, also in JDBC's addresses; a path is none.
_ORACLE = (
    r"((?<![\w/.@:-])[a-z][\w$#]*/|:thin:[^/\s]{0,200}/)"
    r"(?:\"[^\"\s]{0,4000}\"|[^\s/@\"']{1,4000})(?=@)"
)
#: What is a secret by its looks: tokens of services, keys.
_SHAPES = (
    r"()(?:\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-)[\w-]{10,}|\bA[KS]IA[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?<=\bbearer )\S+|(?<=\bbasic )[\w+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^\x1f]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z|(?=\x1f)))"
)
#: ``-u user:secret`` of curl; two numbers are a user and a group.
_USER = r"((?<!\S)(?:-u|--user|--proxy-user)[=\s]*[^\s:]+:)(?!\d+(?!\S))\S+"
_EVERYWHERE = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        *(_SHAPES, _ADDRESS_OF_TOKEN, _ORACLE, _SQL, _REMOTE),
        *(_IDENTIFIED, _NAMED, _OPTION, _USER),
    )
]
#: Programs whose short options take a secret, beside the letter or after it.
_CLIENTS = re.compile(
    r"(?:^|[\s/])(?:mysql\w*|mariadb[\w-]*|mongo\w*|sshpass|redis-cli|valkey-cli|sqlcmd|bcp|isql"
    r"|tsql|ldap\w+|htpasswd|cqlsh|vsql|hdbsql|7z\w*|zip|unzip)(?=\s|$)"
)
_SHORT_OF_CLIENTS = re.compile(rf"((?<!\S)-[pPaw]\s*)(?:{_QUOTED}|[^\s-]\S*)")
_ORACLE_CLIENTS = re.compile(r"(?:^|[\s/])(?:sqlplus|sql|sqlldr|rman|expd?p?|impd?p?)(?=\s|$)")
_LOGON = re.compile(r"((?<!\S)(?:userid=)?[a-z][\w$#]*/)(?!/)[^\s@]+", re.IGNORECASE)
#: Arguments that are a secret as a whole, to their end: the one after a name, and those with one.
_NAME_ALONE = re.compile(rf"--?(?:[\w-]*[_-])?{_NAME}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"((?<![\w.-])[\w.-]*{_NAME}=).+", re.IGNORECASE | re.DOTALL)
#: ``-pSECRET``; a number is a port, and some words are options of others.
_SHORT = re.compile(
    r"(-p)(?!\d{1,5}$|(?:rint\w*|ath|erm|rune|thread|ipe|ort|arents|id)$|[\w-]{2,}=).+", re.DOTALL
)
#: Values of the environment that are shorter, or are a word, may be anything.
_VALUE = re.compile(r"(?![a-z]+$|[/~.])\S{6,}")
_VARIABLE = re.compile(rf"\w*{_NAME}", re.IGNORECASE)


def masked_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a program without the secrets that they carry."""
    hidden = []
    for place, argument in enumerate(arguments):
        if place and _NAME_ALONE.fullmatch(arguments[place - 1]):
            hidden.append(MASK)
            continue
        for pattern in (_ASSIGNED, _SHORT):
            if (match := pattern.fullmatch(argument)) is not None:
                argument = match[1] + MASK
        hidden.append(argument.replace(_BETWEEN, " "))
    return masked_text(_BETWEEN.join(hidden)).split(_BETWEEN) if hidden else []


def masked_text(text: str) -> str:
    """A statement, or any other text, without the secrets that it carries."""
    if not text:
        return text
    text = re.sub(_ADDRESS, rf"\1\2{MASK}@", text)
    for pattern in _EVERYWHERE:
        text = pattern.sub(_masked, text)
    if _CLIENTS.search(text):
        text = _SHORT_OF_CLIENTS.sub(_masked, text)
    if _ORACLE_CLIENTS.search(text):
        text = _LOGON.sub(_masked, text)
    for name, value in os.environ.items():
        if value in text and _VARIABLE.fullmatch(name) and _VALUE.fullmatch(value):
            text = text.replace(value, MASK)
    return text


def masked_document(tree: Any) -> Any:
    """A document, such as a plan, whose texts have lost their secrets."""
    if isinstance(tree, dict):
        return {key: masked_document(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [masked_document(value) for value in tree]
    return masked_text(tree) if isinstance(tree, str) else tree


def _masked(match: re.Match[str]) -> str:
    """What goes before a secret stays, and so do the quotes around it."""
    secret = match[0][len(match[1]) :]
    quote = secret[-1:] if secret[-1:] in ("'", '"') and MASK not in secret else ""
    return f"{match[1]}{quote}{MASK}{quote}"
