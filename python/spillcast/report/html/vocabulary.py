"""The words that spillcast itself may say: a name that others gave is none of them."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

#: A run of letters. Digits and shorter runs name nobody.
_LETTERS = re.compile(r"[^\W\d_]{3,}")
#: A name, a number with its unit or an ordinary word: all between blanks and punctuation.
_RUN = re.compile(r"(?<![\w.@$#+~-])[\w.@$#+~-]*\w")
_SUFFIXES = (".py", ".toml", ".csv", ".sql", ".j2")
#: What databases call waits, and systems their kernels, beside what is in our files.
_OTHERS = (
    "ack acknowledge acquire allocate allocation amd amzn arch archive archiving array ass "
    "asynch aws azure background bgworkershutdown blkd block blocking bootstrap broadcast "
    "buffer buffermapping busy cache cell change channel checkpoint circuit cleared client "
    "clientread clientwrite close cloud cluster commit completion contention control convert "
    "creation cursor datafileextend datafileprefetch datafileread dbwriter debian dedicated "
    "deq dfs direct dispatcher dump end enq executegather fedora gcp generic gentoo ges "
    "global grant handle hashbatchload hashbuildallocate heap incomplete index interconnect "
    "interrupt jobq jox kfk kill kksfbc ksv latch library link list lns load lock lockmanager "
    "log lost lowlatency manager message messagequeuereceive messagequeuesend metadata module "
    "more msg multiblock mutex net non nowait nsq null object online optimized oracle "
    "parallel parallelfinish parameter parse path pga pgsleep physical pin pipe pmon poll "
    "pool prefetch procarray qref quantum queue rdma read realtime recovery redo relation "
    "reliable remaster remote reply request resmgr rhel row scattered segment sendreq "
    "sequential server shared sharedtuplestore single slave smart smon space startup suse "
    "suspended sync table target timer transaction transactionid txn ubuntu uek undo "
    "unspecified user utl vacuumdelay validate vector virtual vktm wait wakeup walsync "
    "walwrite write writer "
)


def is_ours(run: str) -> bool:
    """Whether all words of a run are ours, or their plural is."""
    known = _words()
    return all(
        word in known or word.removesuffix("s") in known
        for word in map(str.casefold, _LETTERS.findall(run))
    )


def strangers(text: str) -> list[str]:
    """The runs of a text that are not ours, in its order."""
    return [run for run in _RUN.findall(text) if not is_ours(run)]


@cache
def _words() -> frozenset[str]:
    """The words of all of the package's files."""
    found = set(_OTHERS.split())
    for text in _texts(files("spillcast")):
        found.update(map(str.casefold, _LETTERS.findall(text)))
    return frozenset(found)


def _texts(folder: Traversable) -> list[str]:
    texts = []
    for entry in folder.iterdir():
        if entry.is_dir():
            texts += _texts(entry)
        elif entry.name.endswith(_SUFFIXES):
            texts.append(entry.read_text(encoding="utf-8"))
    return texts
