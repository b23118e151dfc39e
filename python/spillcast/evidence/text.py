"""Files as text: unpacked, decoded and bounded; whole, in blocks of lines, or as a plain copy."""

import atexit
import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import re
import resource
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, Any, TypeVar

from spillcast import _core
from spillcast.errors import EvidenceAmbiguous, EvidenceDamaged, EvidenceUnsuited, FileTooLarge
from spillcast.gate import TEXT_BYTES_MAX, bounded, reading
from spillcast.workspace import free_bytes

#: The beginning of a file, by which its kind is recognised.
HEAD_BYTES = 1 << 20
#: The size of a block of a log. Longer lines than LINE_BYTES_MAX are cut.
BLOCK_BYTES, LINE_BYTES_MAX = 8 << 20, 64 << 20
#: The largest size of an unpacked log.
UNPACKED_BYTES_MAX = 64 << 30
_ZSTD_BUFFER_BYTES = 1 << 20
#: The number of leading characters that show whether a text is wrapped.
_WRAPPED_LENGTH = 1 << 17
#: The signature of a tar, which ends at this offset.
_TAR, _TAR_BYTES = b"ustar", 262
#: Listing the members of a tar takes memory. An archive with this many is not a single file.
_MEMBERS_MAX = 1000
_GZIP = b"\x1f\x8b"
_UNPACK_HINT = "unpack it, and give the file that describes the run, or the recording's folder"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # The marks of UTF-32 begin with those of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: UTF-16 and UTF-32 without a byte order mark: the share of NULs in the first bytes exceeds the
#: first limit, and decoded, the share of ASCII letters, digits and blanks exceeds the second.
_NUL_SHARE, _PLAIN_SHARE, _PROBED_BYTES = 0.1, 0.3, 4096
_FALLBACK = "spillcast-latin-1"
#: A compressed file in a tar in a zip has three layers.
_LAYERS_MAX = 4
Opener = Callable[[Any], Any]
T = TypeVar("T")
#: Copies of files as plain text, by path, size and time of the last change.
_COPIES = dict[tuple[Path, int, int], IO[bytes]]()
#: A repeated file, and the first file that it equals.
Repeated = tuple[Path, Path]


def _as_latin_1(error: UnicodeError) -> tuple[str, int]:
    """Decodes bytes that are not UTF-8 as Windows-1252, or else as Latin-1."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    content = error.object[error.start : error.end]
    try:
        return content.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return content.decode("latin-1"), error.end


codecs.register_error(_FALLBACK, _as_latin_1)


def text_of(path: Path, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """The whole text of a file. InputError if it is too long, or compressed and damaged."""
    with opened(path) as file:
        return decoded(bounded(file.read(bytes_max + 1), bytes_max))


def head_of(path: Path, bytes_max: int = HEAD_BYTES) -> str:
    """The beginning of the text."""
    with opened(path) as file:
        return decoded(file.read(bytes_max))


def json_or_none(text: str) -> Any:
    """The value of a text in JSON; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def decoded(content: bytes) -> str:
    """Text from UTF-8, UTF-16 or UTF-32; a byte order mark is optional. Line ends are ``\\n``."""
    text = content.decode(_encoding(content), errors=_FALLBACK)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def blocks_of(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines, in UTF-8; a line that is too long is truncated."""
    with opened(path) as file:
        head = file.read(_PROBED_BYTES)
        encoding = _encoding(head)
        wide = None if "8" in encoding else codecs.getincrementaldecoder(encoding)("replace")
        kept, total = b"", 0
        block = head + file.read(BLOCK_BYTES)
        while block:
            total += len(block)
            if total > UNPACKED_BYTES_MAX:
                raise FileTooLarge(f"unpacks to more than {UNPACKED_BYTES_MAX >> 30} GiB")
            if wide is not None:
                block = wide.decode(block).encode()
            following = file.read(BLOCK_BYTES)
            # The last line may lack its line end, as in pasted text.
            end = block.rfind(b"\n") + 1 if following else len(block)
            if end:
                yield kept + block[:end]
                kept = block[end:]
            elif len(kept) < LINE_BYTES_MAX:
                kept += block
            block = following
        if kept:
            yield kept


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, decompressed as it is read. InputError for an archive of several files."""
    with _unpacked(path) as (content, _):
        yield content


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[IO[bytes], list[Opener]]]:
    """The content of a file, and the openers of its layers of compression and archives."""
    with reading(path), ExitStack() as stack:
        content: IO[bytes] = stack.enter_context(path.open("rb"))
        layers: list[Opener] = []
        while content.seekable() and len(layers) < _LAYERS_MAX:
            begin: bytes = content.peek(_TAR_BYTES)  # type: ignore[attr-defined]
            is_tar = begin[_TAR_BYTES - len(_TAR) : _TAR_BYTES] == _TAR
            openers = (opener for magic, opener in _PACKED if begin.startswith(magic))
            opener = _tar if is_tar else next(openers, None)
            # The core unpacks zstd from a path.
            if opener is None or (opener is _zstd and layers):
                break
            layers.append(opener)
            content = stack.enter_context(opener(content))
        yield content, layers


def _gunzipped(file: Any) -> Any:
    return gzip.GzipFile(mode="rb", fileobj=file)


def _tar(file: IO[bytes]) -> IO[bytes]:
    """The only file of a tar."""
    archive = tarfile.TarFile(fileobj=file)
    members = list(islice(archive, _MEMBERS_MAX))
    if len(members) < _MEMBERS_MAX:
        members = [member for member in members if member.isfile()]
    content = archive.extractfile(_single([(member.name, member) for member in members]))
    assert content is not None
    return content


def is_plain(path: Path) -> bool:
    """Whether the core can read a file's lines itself: as they are, or as it unpacks them.

    This includes damaged files: the core reads the lines before the damage.
    """
    with path.open("rb") as file:
        if file.peek(8).startswith(_CODECS_OF_SPARK):
            return True
    with suppress(EvidenceDamaged), _unpacked(path) as (text, layers):
        is_packed = layers not in ([], [_gunzipped], [_zstd])
        return not is_packed and "8" in _encoding(text.read(_PROBED_BYTES))
    return True


def plain_copy(path: Path, plain: Callable[[str], str]) -> Path:
    """A path from which the core reads a file: its own, or that of an unnamed copy in plain UTF-8.

    The copy has no prefixes of log shippers, and is ``plain`` of a text that this function changes.
    InputError for an archive of several files, and for a damaged one.
    """
    if not path.is_file() or not os.access(path, os.R_OK):
        return path
    status = path.stat()
    key = path, status.st_size, status.st_mtime_ns
    if (copy := _COPIES.get(key) or _copied(path, plain)) is None:
        return path
    _COPIES[key] = copy
    return Path(f"/proc/self/fd/{copy.fileno()}")


def _copied(path: Path, plain: Callable[[str], str]) -> IO[bytes] | None:
    """An unnamed copy in plain UTF-8; None if the core can read the file itself."""
    from spillcast.evidence.shippers import unshipper

    unshipped, is_wrapped = None, False
    with suppress(EvidenceDamaged):
        head = head_of(path)
        unshipped = unshipper(head)
        # A wrapping is removed only from whole lines.
        lines = (
            head[: head.rfind("\n", 0, _WRAPPED_LENGTH)] if len(head) > _WRAPPED_LENGTH else head
        )
        is_wrapped = unshipped is None and plain(lines) != lines
    if unshipped is None and not is_wrapped and is_plain(path):
        return None
    # Each copy takes a descriptor.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile(prefix="spillcast-"))
        for block in [plain(text_of(path)).encode()] if is_wrapped else blocks_of(path):
            if unshipped is not None:
                block = "\n".join(map(unshipped, decoded(block).split("\n"))).encode()
            copy.write(block)
            if copy.tell() > free_bytes(copy.fileno()):
                text = f"unpacked, it takes more than half of what {tempfile.gettempdir()} has"
                raise FileTooLarge(f"{text} left", "set TMPDIR to a larger directory", path)
        copy.flush()
        stack.pop_all()
    return copy


def with_original_names(text: str) -> str:
    """A message of the core with the original file names in place of those of copies."""
    names = {str(copy.fileno()): str(path) for (path, *_), copy in list(_COPIES.items())}
    return re.sub(r"/proc/self/fd/(\d+)", lambda match: names.get(match[1], match[0]), text)


@atexit.register
def remove_copies(path: Path | None = None) -> None:
    """Removes the copies of a file, or all copies."""
    # Other threads may add copies at the same time.
    for key in list(_COPIES):
        if path in (None, key[0]):
            _COPIES.pop(key).close()


@contextmanager
def opened_text(path: Path) -> Iterator[IO[str]]:
    """The file as text, decompressed and decoded as it is read; its line ends are kept."""
    with opened(path) as file:
        encoding = _encoding(file.read(_PROBED_BYTES))
    with opened(path) as file:
        yield io.TextIOWrapper(file, encoding, _FALLBACK, newline="")


class _Zstd(io.RawIOBase):
    """The decompressed content; seeking back decompresses it again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._path, self._at = Path(file.name), 0
        self._content = _core.ZstdReader(self._path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        offset += self._at if whence == io.SEEK_CUR else 0
        if offset < self._at:
            self._content, self._at = _core.ZstdReader(self._path), 0
        while self._at < offset and self.read(min(offset - self._at, _ZSTD_BUFFER_BYTES)):
            pass
        return self._at

    def readinto(self, buffer: Any) -> int:
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _zstd(file: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Zstd(file), _ZSTD_BUFFER_BYTES)


def _zip(file: IO[bytes]) -> IO[bytes]:
    archive = zipfile.ZipFile(file)
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    try:
        return archive.open(_single([(name, name) for name in names]))
    except RuntimeError as error:  # A password, or a compression that zipfile does not know.
        raise EvidenceUnsuited(str(error), _UNPACK_HINT) from error


def _single(members: Sequence[tuple[str, T]]) -> T:
    """The only member of an archive, of pairs of a name and a member; else EvidenceAmbiguous."""
    # macOS adds a file of attributes to each file.
    files = [pair for pair in members if not PurePath(pair[0]).name.startswith("._")]
    members = files or members
    if len(members) != 1:
        few = ", ".join(name for name, _ in members[:3]) or "nothing"
        raise EvidenceAmbiguous(f"an archive of {len(members)} files: {few}", _UNPACK_HINT)
    return members[0][1]


#: The formats of compressed files and archives, by their first bytes.
_PACKED: tuple[tuple[bytes, Opener], ...] = (
    (_GZIP, _gunzipped),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
    (b"PK\x03\x04", _zip),
)
#: The start of files that Spark compressed, which only the core decompresses.
_CODECS_OF_SPARK = b"LZ4Block", b"\x82SNAPPY"


def _encoding(content: bytes) -> str:
    marked = next((name for mark, name in _BOMS if content.startswith(mark)), None)
    if marked is not None:
        return marked
    probed = content[: min(_PROBED_BYTES, len(content) // 2 * 2)]
    if probed.count(0) <= _NUL_SHARE * len(probed):
        return "utf-8"
    plain_shares = {}
    for name in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        text = probed.decode(name, "replace")
        plain = sum(char.isascii() and (char.isalnum() or char.isspace()) for char in text)
        plain_shares[name] = plain / len(text)
    best = max(plain_shares, key=plain_shares.__getitem__)
    return best if plain_shares[best] > _PLAIN_SHARE else "utf-8"


def distinct(paths: Sequence[Path]) -> tuple[list[Path], list[Repeated]]:
    """The files without duplicates, and the duplicates.

    Files are equal by device and inode, or by their bytes, which are read only if sizes are equal.
    An early copy of a file that has grown since is a duplicate too. A path that is not a plain file
    or cannot be read is kept: its reader reports the error.
    """
    by_path = {path: status for path in paths if (status := _status(path)) is not None}
    sizes = Counter({(s.st_dev, s.st_ino): s.st_size for s in by_path.values()}.values())
    #: The first file of each inode, and of each size and digest.
    firsts: dict[tuple[int, int | bytes], Path] = {}
    kept: dict[Path, None] = {}
    repeated: list[Repeated] = []
    for path in paths:
        if (status := by_path.get(path)) is None:
            kept[path] = None
            continue
        first, size = firsts.setdefault((status.st_dev, status.st_ino), path), status.st_size
        if size and sizes[size] > 1 and (digest := _digest(first)) is not None:
            first = firsts.setdefault((size, digest), first)
        if first != path or path in kept:
            repeated.append((path, first))
        kept.setdefault(first)
    by_size = sorted(kept.keys() & by_path.keys(), key=lambda path: -by_path[path].st_size)
    copies = _early_copies(by_size)
    removed = {copy for copy, _ in copies}
    return [path for path in kept if path not in removed], repeated + copies


def _early_copies(paths: Sequence[Path]) -> list[Repeated]:
    """Files that equal the beginning of a longer one. ``paths`` are in descending order of size."""
    copies = list[Repeated]()
    by_head: dict[bytes, list[Path]] = {}
    for path in paths:
        head = b""
        with suppress(OSError), path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if len(head) < _HEAD_BYTES:
            continue
        longer = by_head.setdefault(head, [])
        if (whole := next((other for other in longer if _is_start(path, other)), None)) is not None:
            copies.append((path, whole))
        else:
            longer.append(path)
    return copies


#: A shorter file does not count as a copy of the beginning of another.
_HEAD_BYTES = 1024


def _is_start(path: Path, whole: Path) -> bool:
    """Whether the content of ``path`` is the beginning of ``whole``; False if unreadable."""
    with suppress(OSError), path.open("rb") as start, whole.open("rb") as file:
        chunks = iter(partial(start.read, 1 << 20), b"")
        return all(file.read(len(chunk)) == chunk for chunk in chunks)
    return False


def repeated_notes(repeated: Sequence[Repeated]) -> list[str]:
    """A note for each file that was given twice and counts once."""
    return [
        f"{path} is given twice and counts once"
        if path == first
        else f"{path} holds only what {first} holds, and counts once"
        for path, first in repeated
    ]


def _status(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.stat() if path.is_file() else None
    return None


def _digest(path: Path) -> bytes | None:
    import hashlib

    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()
    return None
