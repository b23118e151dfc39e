"""Material without SQL texts, bind values and the names that others gave: placeholders instead.

What is known as a secret by its key goes first, then what looks like one, and of all that is left
every word that is none of ours.
"""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from spillcast.fleet.schema import UNKNOWN
from spillcast.redaction import struck_text
from spillcast.report.html.material import Material
from spillcast.report.html.vocabulary import is_ours, strangers

_SUFFIXES = r"spill|trc|trc\.gz|trc\.zst|json|csv|parquet|sql|db|duckdb|tmp|log"
_PATHS = re.compile(
    # From the root or home on; with a known suffix; never within an address or a unit.
    rf"(?<![\w/.%)\]])(?:~|\.{{1,2}})?/[\w.@+~-][^\s'\",;:()<>|?&=]*"
    rf"|(?<![\w/.:])[\w@+-][\w./@+-]*\.(?:{_SUFFIXES})\b"
)
_ADDRESSES = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)"
    r"|(?<!://)(?<![\w./-])(?:[\w-]+\.){2,}[a-z]{2,}\b(?!/)",
    re.IGNORECASE,
)
#: A host before a path of its own, behind a user's name or our word; a kind of target is none.
_HOSTS = re.compile(
    r"(?<![\w.-])(?!(?:cache|file|host)\b)[\w.-]+(?=:path-\d)|(?<=\w@)[\w.-]*\w"
    r"|(?<=\bon host )[\w.-]*\w|(?<=\band host )[\w.-]*\w",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\b(?:select\b.{1,2000}?\bfrom|insert\s+into|update\b.{1,200}?\bset|delete\s+from|merge\s+into)"
    r"\b.*",
    re.IGNORECASE | re.DOTALL,
)
#: Keys whose text is secret as a whole, and of which kind.
_KEYS = {"host": "host", "hostname": "host", "query": "sql", "file": "path", "files": "path"}
_KEYS |= {"dataset": "path", "database": "database", "dbname": "database", "user": "user"}
_KEYS |= {"directory": "path", "like": "path", "path": "path", "object": "object", "keep": "object"}
_KEYS |= {"statement": "sql", "caller": "sql"}
_KEYS |= {
    "longest_at": "path",
    "mount_point": "path",
    "name": "name",
    "target": "name",
    "storage": "name",
}
_NAMED = {"host", "hostname", "database", "dbname", "user"}
#: What names are made of, each of which is secret by itself.
_PARTS = {"path": "/", "host": "."}
#: Keys whose text is of words of ours, whatever a file or a host is called.
_OURS = {"schema", "op", "kind", "code", "method", "engine", "policy", "class", "label"}
#: Keys of what Oracle makes of a statement's text, by which it is found there.
_IDENTIFIERS = {"sql", "sql_id"}
#: Words of two letters that stay; any other may be somebody's host or database.
_SHORT = re.compile("an|as|at|be|by|do|gb|if|in|io|is|it|kb|mb|ms|no|ns|of|on|or|so|tb|to|up|us|we")
_SQL_ID = re.compile(r"[0-9a-z]{13}")


def redacted(material: Material) -> Material:
    """The same with every secret replaced, the same one by the same placeholder throughout."""
    redactor = Redactor()
    for kind, texts in material.secrets.items():
        for text in texts:
            redactor.learn(kind, text)
    rooms = [field.name for field in fields(Material) if field.name != "secrets"]
    trees = {room: getattr(material, room) for room in rooms}
    redactor.collect(trees)
    return replace(material, **{room: redactor.apply(trees[room]) for room in rooms}, secrets={})


class Redactor:
    """Texts that are secret, and their placeholders: ``sql-1``, ``path-2``, ``host``."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._placeholders: dict[str, str] = {}
        self._learned: re.Pattern[str] | None = None

    def learn(self, kind: str, text: str) -> None:
        """Take a text for a secret, unless it is known as one; of a path also its names."""
        text = text.strip().casefold()
        if text and text not in self._kinds and not (kind in _PARTS and _is_ordinary(text)):
            self._kinds[text] = kind
            self._learned = None
            for part in text.split(_PARTS[kind]) if kind in _PARTS else ():
                self.learn(kind, part)

    def _placeholder(self, secret: str) -> str:
        """Numbered in the order in which a page names them."""
        secret = secret.strip().casefold()
        if secret not in self._placeholders:
            kind = self._kinds[secret]
            number = sum(self._kinds[other] == kind for other in self._placeholders) + 1
            self._placeholders[secret] = kind if kind == "host" else f"{kind}-{number}"
        return self._placeholders[secret]

    def _replaced(self, kind: str, text: str) -> str:
        self.learn(kind, text)
        return self._placeholder(text) if text.strip().casefold() in self._kinds else text

    def _placeholder_of(self, kind: str, name: str) -> str:
        """Of a text that is a name as a whole, which may be an ordinary word elsewhere."""
        self._kinds.setdefault(name.strip().casefold(), kind)
        return self._placeholder(name)

    def _knows(self, text: str) -> bool:
        return text.strip().casefold() in self._kinds and not _is_ordinary(text)

    def collect(self, tree: Any, key: str = "") -> None:
        """Learn what the keys of a tree say is secret."""
        if isinstance(tree, dict):
            for name, value in tree.items():
                self.collect(value, str(name))
        elif isinstance(tree, list):
            for value in tree:
                self.collect(value, key)
        elif isinstance(tree, str) and tree:
            self._learn_by_key(key, tree)

    def _learn_by_key(self, key: str, text: str) -> None:
        kind = _KEYS.get(key)
        if kind == "name":
            # Of a storage: an assumed one or a row of the catalogue is no secret, a file is.
            if Path(text).is_absolute():
                self.learn("path", text)
        elif kind is not None:
            self.learn(kind, text)

    def apply(self, tree: Any) -> Any:
        """The tree with placeholders."""
        if isinstance(tree, dict):
            # A row of what was measured: the value is of the kind that its label says.
            of = {"value": str(tree["label"])} if tree.get("label") in _NAMED else {}
            return {
                self._of_key(str(name)): self._of_name(of.get(name, str(name)), value)
                for name, value in tree.items()
            }
        if isinstance(tree, list | tuple):
            return [self.apply(value) for value in tree]
        return self.text(tree) if isinstance(tree, str) else tree

    def _of_key(self, name: str) -> str:
        return self.text(name) if "/" in name else self._of_ours(name)

    def _of_name(self, name: str, value: Any) -> Any:
        """The value of a key."""
        if name in _IDENTIFIERS and isinstance(value, str) and _SQL_ID.fullmatch(value):
            return value
        if name in _OURS and isinstance(value, str):
            return self._of_ours(value)
        if name in _NAMED and isinstance(value, str) and value != UNKNOWN:
            return self._placeholder_of(_KEYS[name], value) if value.strip() else value
        return self.apply(value)

    def _of_ours(self, text: str) -> str:
        """A text without words that are none of ours."""
        for name in strangers(text):
            text = text.replace(name, self._replaced("name", name))
        return text

    def text(self, text: str) -> str:
        """A text with placeholders: what was learned first, then whatever looks like a secret."""
        if self._knows(text):
            return self._placeholder(text)
        text = struck_text(text)
        if self._learned is None:
            told = (secret for secret in self._kinds if not _is_ordinary(secret))
            known = sorted(told, key=len, reverse=True)
            words = "|".join(re.escape(secret) for secret in known)
            self._learned = re.compile(
                rf"(?<!\w)(?:{words})(?!\w)" if known else r"(?!)", re.IGNORECASE
            )
        text = self._learned.sub(lambda found: self._placeholder(found[0]), text)
        text = _STATEMENT.sub(lambda found: self._replaced("sql", found[0]), text)
        text = _PATHS.sub(lambda found: self._replaced("path", found[0]), text)
        return self._of_ours(_HOSTS.sub("host", _ADDRESSES.sub("host", text)))


def _is_ordinary(text: str) -> bool:
    """Whether a text tells nothing: a number, a word that everybody uses, a kind of place."""
    if len(text) == 2:
        return text.isdigit() or _SHORT.fullmatch(text) is not None
    return text.isdigit() or (text.isalpha() and len(text) > 1 and is_ours(text))
