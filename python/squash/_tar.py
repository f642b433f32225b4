"""Directories as tar, both ways.

What a sandbox packed is read as an enemy's: its root may have replaced what packs. Names come out relative and without "..", nothing is
written through a symlink (they are made last), owners and set-id bits are not taken over. `tarfile` is not used to read: it takes what
headers say about their own size.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import BadRequest, Conflict, ProtocolError

_BLOCK = 512
_PIECE = 262_144
#: A header of long names has two of them.
_EXTENSION_MAX = 65_536
#: As many as a sandbox hands out: an archive without end would fill the memory.
_ENTRIES_MAX = 2_000_000
#: No path of the system's is longer; what lies deeper is hard to remove again.
_PATH_MAX = 4_096
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

LocalPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class _Place(NamedTuple):
    """A directory of this machine: its descriptor, or its path where a system has no names below descriptors."""

    path: bytes
    fd: Optional[int]

    def name(self, part: bytes) -> bytes:
        return os.path.join(self.path, part) if self.fd is None else part


@contextlib.contextmanager
def _opened(name: bytes, above: Optional[_Place], flags: int) -> Iterator[_Place]:
    """A directory that is read."""
    path = name if above is None else above.name(name)
    if os.stat not in os.supports_dir_fd or os.listdir not in os.supports_fd:
        yield _Place(path, None)
        return
    fd = os.open(path, (_DIRECTORY & ~_NO_LINK) | flags, dir_fd=None if above is None else above.fd)
    try:
        yield _Place(path, fd)
    finally:
        os.close(fd)


def packed(local: LocalPath) -> Iterator[bytes]:
    """A directory as tar, in pieces. What is neither file, directory nor symlink is left out.

    Whoever may write in it, such as a sandbox that has it attached, can put a link in the place of what is in it: each name is opened from its
    directory's descriptor, and no link is followed.
    """
    top = os.fsencode(local)
    if not os.path.isdir(top):
        raise BadRequest(f"{os.fsdecode(top)!r} is no directory", code="not_a_directory")
    piece: List[bytes] = []
    size = 0
    with _opened(top, None, 0) as folder:
        for part in _entries(folder, b""):
            piece.append(part)
            size += len(part)
            if size >= _PIECE:
                yield b"".join(piece)
                piece, size = [], 0
    yield b"".join(piece) + bytes(2 * _BLOCK)


def _entries(folder: _Place, inside: bytes) -> Iterator[bytes]:
    names = os.listdir(folder.path) if folder.fd is None else [os.fsencode(each) for each in os.listdir(folder.fd)]
    for name in sorted(names):
        status = os.stat(folder.name(name), dir_fd=folder.fd, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with _opened(name, folder, _NO_LINK) as below:
                yield _header(inside + name + b"/", b"5", status, 0)
                yield from _entries(below, inside + name + b"/")
        elif stat.S_ISLNK(status.st_mode):
            target = os.readlink(folder.name(name), dir_fd=folder.fd)
            yield _header(inside + name, b"2", status, 0, target)
        elif stat.S_ISREG(status.st_mode):
            yield from _file(folder, name, inside + name)


def _file(folder: _Place, own: bytes, name: bytes) -> Iterator[bytes]:
    # Not through a link that took its place since, and never waiting for the other end of a fifo.
    flags = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(folder.name(own), flags, dir_fd=folder.fd), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ProtocolError(f"{os.fsdecode(name)!r} is no file any more", code="source_changed")
        left = status.st_size
        yield _header(name, b"0", status, left)
        while left > 0:
            data = file.read(min(left, _PIECE))
            if not data:
                raise ProtocolError(f"{os.fsdecode(name)!r} has become shorter meanwhile", code="source_changed")
            left -= len(data)
            yield data
        yield bytes(-status.st_size % _BLOCK)


def _header(name: bytes, kind: bytes, status: os.stat_result, size: int, target: bytes = b"") -> bytes:
    records = {}
    if len(name) > 100:
        records[b"path"] = name
    if len(target) > 100:
        records[b"linkpath"] = target
    if size >= 8**11:
        records[b"size"] = b"%d" % size
    head = _block(name, kind, stat.S_IMODE(status.st_mode), size if size < 8**11 else 0, int(status.st_mtime), target)
    if not records:
        return head
    extended = b"".join(_record(key, value) for key, value in records.items())
    return _block(b"pax", b"x", 0o644, len(extended), 0, b"") + extended + bytes(-len(extended) % _BLOCK) + head


def _record(key: bytes, value: bytes) -> bytes:
    length = rest = len(key) + len(value) + 3
    while length != rest + len(str(length)):
        length = rest + len(str(length))
    return b"%d %b=%b\n" % (length, key, value)


def _block(name: bytes, kind: bytes, mode: int, size: int, modified: int, target: bytes) -> bytes:
    fields = (
        name[:100].ljust(100, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % size,
        b"%011o\0" % min(max(modified, 0), 8**11 - 1),
        b" " * 8,
        kind,
        target[:100].ljust(100, b"\0"),
        b"ustar\00000",
    )
    block = b"".join(fields).ljust(_BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def unpack(file: BinaryIO, target: bytes) -> int:
    """Into a new directory, which has its name when all is in it; how many entries.

    Whoever may write to the directory above it, such as a sandbox that has it attached, can put a link in its place while it is filled. So
    every name is opened from its directory's descriptor, where the system has a way to that.

    Raises Conflict where ``target`` is there, ProtocolError where the file is no tar, or leads out of it.
    """
    refuse_existing(target)
    folder, name = os.path.split(target)
    # Closed to everybody else until all is in it.
    work = tempfile.mkdtemp(prefix=b"." + name[:200] + b".", suffix=b".part", dir=folder)
    try:
        with _held(work, None) as place:
            os.mkdir(place.name(b"tree"), 0o777, dir_fd=place.fd)
            with _held(b"tree", place) as tree:
                entries = _fill(file, tree)
            # An empty directory would be replaced.
            refuse_existing(target)
            os.rename(place.name(b"tree"), target, src_dir_fd=place.fd)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return entries


def refuse_existing(target: bytes) -> None:
    """Raises Conflict where something has this name."""
    if os.path.lexists(target):
        raise Conflict(f"{os.fsdecode(target)!r} is there already", code="file_exists")


@contextlib.contextmanager
def _held(name: bytes, above: Optional[_Place]) -> Iterator[_Place]:
    """A directory, not through a link. Raises ProtocolError where another user has put it there."""
    path = name if above is None else above.name(name)
    if os.mkdir not in os.supports_dir_fd:
        yield _Place(path, None)
        return
    fd = os.open(path, _DIRECTORY, dir_fd=None if above is None else above.fd)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise ProtocolError(f"{os.fsdecode(path)!r} was replaced by another user", code="file_changed")
        yield _Place(path, fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _within(tree: _Place, parts: Sequence[bytes]) -> Iterator[_Place]:
    """A directory of the tree, each of its names opened from the one before."""
    if tree.fd is None:
        yield _Place(os.path.join(tree.path, *parts), None)
        return
    fd = os.dup(tree.fd)
    try:
        for part in parts:
            below = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
        yield _Place(b"", fd)
    finally:
        os.close(fd)


def _fill(file: BinaryIO, tree: _Place) -> int:
    # What is made when all else is there: nothing is written through a link, or needs the rights that a directory does not give.
    later: List[Tuple[bytes, List[bytes], int, bytes]] = []
    extended: Dict[bytes, bytes] = {}
    entries = 0
    while True:
        header = _exactly(file, _BLOCK)
        if not any(header):
            break
        kind, size = header[156:157], _size(header, extended)
        if kind == b"x":
            if size > _EXTENSION_MAX:
                raise _damaged("a header is too long")
            extended = _records(_exactly(file, size))
            _exactly(file, -size % _BLOCK)
            continue
        parts = _parts(extended.get(b"path") or _text(header, 0, 100))
        mode = _octal(header, 100, 8) & 0o777
        if parts:
            entries += 1
            if entries > _ENTRIES_MAX:
                raise _damaged(f"it has more than {_ENTRIES_MAX} entries")
            target = extended.get(b"linkpath") or _text(header, 157, 100)
            if kind == b"0":
                _make_file(tree, parts, mode, file, size)
            elif kind == b"5":
                _make_directory(tree, parts, mode)
            elif kind != b"2":
                raise _damaged(f"{os.fsdecode(b'/'.join(parts))!r} is no file, directory or symlink")
            if kind != b"0":
                later.append((kind, parts, mode, target))
        elif kind != b"5":
            raise _damaged("a file has no name")
        _exactly(file, -size % _BLOCK)
        extended = {}
    for kind, parts, mode, target in reversed(later):
        _finish(tree, kind, parts, mode, target)
    return entries


def _make_file(tree: _Place, parts: List[bytes], mode: int, file: BinaryIO, size: int) -> None:
    with _named(parts), _within(tree, parts[:-1]) as place:
        fd = os.open(place.name(parts[-1]), _NEW_FILE, mode, dir_fd=place.fd)
    with open(fd, "wb") as made:
        while size > 0:
            data = _exactly(file, min(size, _PIECE))
            made.write(data)
            size -= len(data)


def _make_directory(tree: _Place, parts: List[bytes], mode: int) -> None:
    with _named(parts), _within(tree, parts[:-1]) as place:
        os.mkdir(place.name(parts[-1]), mode | 0o700, dir_fd=place.fd)


def _finish(tree: _Place, kind: bytes, parts: List[bytes], mode: int, target: bytes) -> None:
    with _named(parts):
        if kind == b"2":
            with _within(tree, parts[:-1]) as place:
                os.symlink(target, place.name(parts[-1]), dir_fd=place.fd)
        else:
            with _within(tree, parts) as place:
                at: Union[int, bytes] = place.path if place.fd is None else place.fd
                os.chmod(at, os.stat(at).st_mode & mode)


@contextlib.contextmanager
def _named(parts: List[bytes]) -> Iterator[None]:
    """Raises ProtocolError where a name of the archive can't be made."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise _damaged(f"{os.fsdecode(b'/'.join(parts))!r}: {error.strerror}") from error
    except ValueError:
        raise _damaged("a name has a NUL byte") from None


def _parts(name: bytes) -> List[bytes]:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if len(name) > _PATH_MAX:
        raise _damaged(f"{os.fsdecode(name[:100])!r}... is too long a path")
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise _damaged(f"the name {os.fsdecode(name)!r} leads out of the directory")
    return parts


def _size(header: bytes, extended: Dict[bytes, bytes]) -> int:
    if _octal(header, 148, 8) != sum(header) - sum(header[148:156]) + 8 * 32:
        raise _damaged("a header is broken")
    told = extended.get(b"size")
    if told is None:
        return _octal(header, 124, 12)
    if not told.isdigit() or len(told) > 18:
        raise _damaged("a size is no number")
    return int(told)


def _octal(header: bytes, start: int, length: int) -> int:
    text = header[start : start + length].strip(b" \0")
    # Digits alone: `int` takes a sign as well, and a file that is to be read for -1 bytes is read whole.
    if text.strip(b"01234567"):
        raise _damaged("a header is broken")
    return int(text, 8) if text else 0


def _text(header: bytes, start: int, length: int) -> bytes:
    return header[start : start + length].partition(b"\0")[0]


def _records(data: bytes) -> Dict[bytes, bytes]:
    found: Dict[bytes, bytes] = {}
    while data:
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or not 0 < int(length[:7]) <= len(data):
            raise _damaged("a long name is broken")
        key, _, value = data[len(length) + 1 : int(length)].partition(b"=")
        found[key] = value.rstrip(b"\n")
        data = data[int(length) :]
    return found


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise _damaged("it ends early")
    return data


def _damaged(why: str) -> ProtocolError:
    return ProtocolError(f"the archive is damaged: {why}", code="archive_invalid")
