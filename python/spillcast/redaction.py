"""Secrets masked in arguments, values of the environment, connection strings and SQL.

All command lines and statements of others that are kept or shown pass through this module. It masks
too much rather than too little: any value that is named or looks like a secret counts as one.
"""

import os
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

MASK = "***"
#: Separates arguments: white space to all patterns, but never part of a quoted value.
_BETWEEN = "\x1f"
#: The ends of names of secrets: of options, keys, environment variables and columns.
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])(?:db|user|my|root)?_?(?:pass|pwd|pw)|auth|token"
    r"|authorization|secret|credentials?|private[_-]?key|(?<![a-z])sig(?:nature)?"
    r"|(?:api|access|secret|account|encryption|session|master)_?-?key)s?"
)
#: Parts of these names, of which each has at least one.
_NAME_WORDS = "pass pw auth token secret credential key sig"
_QUOTED = (
    r"(?:[a-z]|u&)?'(?:[^'\\\x1f]|''|\\.)*'|\"(?:[^\"\\\x1f]|\"\"|\\.)*\""
    r"|\$(?:[a-z]\w*)?\$[^\x1f]*?\$(?:[a-z]\w*)?\$"
)
#: ``name=value``, ``"name": "value"``; without quotes a value ends at a blank.
_NAMED = rf"({_NAME}['\"\])]*\s*(?:=>|:=|[=:])\s*)(?:{_QUOTED}|\S+)"
#: ``--name value``.
_OPTION = rf"((?<![\w-])--?(?:[\w-]*[_-])?{_NAME}\s+)(?:{_QUOTED}|[^\s-]\S*)"
#: ``password '...'``, ``identified by ...``, functions with a password or key as an argument.
_SQL = (
    r"((?<!['\"])\b(?:password|secret|identified\s+(?:with\s+\S+\s+)?(?:by|as)(?:\s+values)?)\s*"
    r"|\b(?:password|crypt|hmac|(?:en|de)crypt\w*|pgp_\w+)\s*\(\s*+(?:[^,()\x1f]*,\s*)?)"
    rf"(?:{_QUOTED})"
)
#: Functions and engines, mostly of ClickHouse: an address or a mode, then keys or a password.
_REMOTE = (
    r"(\b(?:(?:iceberg|deltalake|hudi|paimon)(?:s3|azure)?|s3|azure(?:blobstorage)?|gcs|oss|cosn"
    r"|remote(?:secure)?|mysql|(?:materialized)?postgresql|mongodb|redis|externaldistributed"
    r"|(?:aes_|try)?(?:en|de)crypt(?:_mysql)?)(?:cluster|queue)?\s*\(\s*+"
    r"(?:'[^'\x1f]*+'|[^'(),\x1f]*+(?>\([^()\x1f]*+\)|))\s*+,\s*+)"
    r"(?:'(?:[^'\\\x1f]|''|\\.)*'|[^'()\x1f]|\((?>[^()\x1f]|\([^()\x1f]*+\))*+\))+"
)
_IDENTIFIED = r"(\bidentified\s+by\s+)(?!values\b)[^\s'\"*;]+"
#: ``scheme://user:secret@host``, to the last @, because a secret may contain one; a token has no
#: user. Lengths are bounded to avoid quadratic time in a text with many addresses.
_ADDRESS = r"(://)([^:/@\s]{0,200}:)[^\s'\"]{0,4000}@"
_ADDRESS_OF_TOKEN = r"(://)[\w-]{16,}(?=@)"
#: ``user/secret@service`` of Oracle, also in JDBC addresses; not a path.
_ORACLE = (
    r"((?<![\w/.@:-])[a-z][\w$#]*/|:thin:[^/\s]{0,200}/)"
    r"(?:\"[^\"\s]{0,4000}\"|[^\s/@\"']{1,4000})(?=@)"
)
#: Secrets that are recognised by their form: tokens of services, keys.
_SHAPES = (
    r"()(?:\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-)[\w-]{10,}|\bA[KS]IA[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?<=\bbearer )\S+|(?<=\bbasic )[\w+/=]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^\x1f]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z|(?=\x1f)))"
)
#: ``-u user:secret`` of curl; two numbers are a user and a group ID.
_USER = r"((?<!\S)(?:-u|--user|--proxy-user)[=\s]*[^\s:]+:)(?!\d+(?!\S))\S+"
#: Patterns of secrets. Before each, words in lower case, of which any text that it matches has at
#: least one: most statements have none, and a search for words is faster.
_EVERYWHERE = [
    (words.split(), re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for words, pattern in (
        ("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox sk- akia asia eyj bearer basic private",
         _SHAPES),
        ("://", _ADDRESS_OF_TOKEN),
        ("@", _ORACLE),
        ("password secret identified crypt hmac pgp_", _SQL),
        ("iceberg deltalake hudi paimon s3 azure gcs oss cosn remote sql mongodb redis"
         " externaldistributed crypt", _REMOTE),
        ("identified", _IDENTIFIED),
        (_NAME_WORDS, _NAMED),
        (_NAME_WORDS, _OPTION),
        ("-u", _USER),
    )
]  # fmt: skip
#: Programs whose short options take a secret, attached or as the next argument.
_CLIENTS = re.compile(
    r"(?:^|[\s/])(?:mysql\w*|mariadb[\w-]*|mongo\w*|sshpass|redis-cli|valkey-cli|sqlcmd|bcp|isql"
    r"|tsql|ldap\w+|htpasswd|cqlsh|vsql|hdbsql|7z\w*|zip|unzip)(?=\s|$)"
)
_SHORT_OF_CLIENTS = re.compile(rf"((?<!\S)-[pPaw]\s*)(?:{_QUOTED}|[^\s-]\S*)")
_ORACLE_CLIENTS = re.compile(r"(?:^|[\s/])(?:sqlplus|sql|sqlldr|rman|expd?p?|impd?p?)(?=\s|$)")
_LOGON = re.compile(r"((?<!\S)(?:userid=)?[a-z][\w$#]*/)(?!/)[^\s@]+", re.IGNORECASE)
#: Arguments that are masked to their end: after the name of a secret, or with a name inside.
_NAME_ALONE = re.compile(rf"--?(?:[\w-]*[_-])?{_NAME}", re.IGNORECASE)
_ASSIGNED = re.compile(rf"((?<![\w.-])[\w.-]*{_NAME}=).+", re.IGNORECASE | re.DOTALL)
#: ``-pSECRET``; a number is a port, and some words are options of other programs.
_SHORT = re.compile(
    r"(-p)(?!\d{1,5}$|(?:rint\w*|ath|erm|rune|thread|ipe|ort|arents|id)$|[\w-]{2,}=).+", re.DOTALL
)
#: Environment values that are masked by value; shorter ones and words are too ambiguous.
_VALUE = re.compile(r"(?![a-z]+$|[/~.])\S{6,}")
_VARIABLE = re.compile(rf"\w*{_NAME}", re.IGNORECASE)
#: The maximum length of a text that is kept in memory in case it is repeated.
_REPEATED_MAX = 1 << 14


def masked_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a program with secrets masked."""
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
    """A statement, or any other text, with secrets masked."""
    if not text:
        return text
    mask = _masked_by_form if len(text) <= _REPEATED_MAX else _masked_by_form.__wrapped__
    text = mask(text)
    for name in filter(_is_of_secret, os.environ):
        value = os.environ.get(name, "")
        if value in text and _VALUE.fullmatch(value):
            text = text.replace(value, MASK)
    return text


@cache
def _is_of_secret(variable: str) -> bool:
    """Whether a variable of the environment has the name of a secret."""
    return _VARIABLE.fullmatch(variable) is not None


@lru_cache  # A log repeats statements.
def _masked_by_form(text: str) -> str:
    # Letters outside of ASCII may equal one of it without regard to case, as in ``\u017fecret``.
    lower = text.lower() if text.isascii() else ""
    text = re.sub(_ADDRESS, rf"\1\2{MASK}@", text)
    for words, pattern in _EVERYWHERE:
        if not lower or any(word in lower for word in words):
            text = pattern.sub(_masked, text)
    if _CLIENTS.search(text):
        text = _SHORT_OF_CLIENTS.sub(_masked, text)
    if _ORACLE_CLIENTS.search(text):
        text = _LOGON.sub(_masked, text)
    return text


def masked_document(tree: Any) -> Any:
    """A document, such as a plan, with secrets masked in its texts."""
    if isinstance(tree, dict):
        return {key: masked_document(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [masked_document(value) for value in tree]
    return masked_text(tree) if isinstance(tree, str) else tree


def _masked(match: re.Match[str]) -> str:
    """Keep the text before a secret and the quotes around it."""
    secret = match[0][len(match[1]) :]
    quote = secret[-1:] if secret[-1:] in ("'", '"') and MASK not in secret else ""
    return f"{match[1]}{quote}{MASK}{quote}"
