# Written by tools/python-sdk.ts from _async/files.py: do not change it here.
"""Files of a sandbox. Paths are absolute; a name that is no UTF-8 is given as bytes."""

from __future__ import annotations

import base64
import os
import tempfile
from typing import TYPE_CHECKING, Any, Generator, Iterator, Dict, Mapping, Optional, Tuple, Union

from .. import types
from .._commands import SLOW_S
from .._record import read
from .._tar import LocalPath, packed, refuse_existing, unpack
from ..errors import BadRequest, NotFound
from ..streams import FileChange
from .bodies import Data, body_of, copy, in_pieces
from .client import Client
from .exchange import Response, pieces_of
from .following import follow_events
from .wire import in_thread

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt

GuestPath = Union[str, bytes]
_READ_BYTES_MAX = 1_073_741_824
#: What a directory of a sandbox may take here unless more is asked for: its files may be sparse.
_DOWNLOAD_BYTES_MAX = 16 * 1_073_741_824


class Files:
    """``as_``, in all of them: do it as this user (``UID``, ``UID:GID`` or a name), with its rights; without it as root."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._places = {"id": box}

    def read(
        self,
        path: GuestPath,
        *,
        range: Optional[Tuple[int, Optional[int]]] = None,
        bytes_max: int = _READ_BYTES_MAX,
        **options: Unpack[opt.FileReadOptions],
    ) -> bytes:
        """file.read: all of a file, or ``range``: the first byte and the one behind the last (None: to its end).

        Raises NotFound, BadRequest (a directory), ProtocolError where it is longer than ``bytes_max``.
        """
        return (self._open("file.read", path, options, _ranged(range))).read(bytes_max)

    def read_text(
        self, path: GuestPath, *, bytes_max: int = _READ_BYTES_MAX, **options: Unpack[opt.FileReadOptions]
    ) -> str:
        """file.read: a file of UTF-8; other bytes become U+FFFD."""
        return (self.read(path, bytes_max=bytes_max, **options)).decode("utf-8", "replace")

    def read_parts(
        self,
        path: GuestPath,
        *,
        range: Optional[Tuple[int, Optional[int]]] = None,
        **options: Unpack[opt.FileReadOptions],
    ) -> Generator[bytes, None, None]:
        """file.read: a file of any length, as it comes."""
        for piece in pieces_of(self._open("file.read", path, options, _ranged(range))):
            yield piece

    def write(
        self,
        path: GuestPath,
        data: Data,
        *,
        if_match: Optional[str] = None,
        if_none_match: Optional[str] = None,
        **options: Unpack[opt.FileWriteOptions],
    ) -> types.File:
        """file.write: replaces it when all of ``data`` has come; until then readers see the old one.

        ``mode`` is octal such as ``"644"``, ``parents`` makes missing directories, ``append`` writes behind what is there.
        ``if_match`` with an etag: only while nobody else has changed it; ``if_none_match="*"``: only where nothing is.
        Raises Conflict (``precondition_failed``), LimitReached (``sandbox_full``).
        """
        headers = {"content-type": "application/octet-stream"}
        if if_match is not None:
            headers["if-match"] = if_match
        if if_none_match is not None:
            headers["if-none-match"] = if_none_match
        return read(types.File, self._upload("file.write", path, data, options, headers))

    def change(self, path: GuestPath, **fields: Unpack[opt.FileChangeOptions]) -> types.File:
        """file.change: mode and owner, with ``recursive`` of all that is in it."""
        return self._file("file.change", {**_named(path), **fields})

    def stat(self, path: GuestPath, **options: Unpack[opt.FileStatOptions]) -> types.File:
        """file.stat: what stands there; with ``follow`` what a symlink names. Raises NotFound."""
        return self._client.record(types.File, "file.stat", self._places, {**_named(path), **options})

    def exists(self, path: GuestPath, **options: Unpack[opt.FileStatOptions]) -> bool:
        """file.stat: whether anything stands there."""
        try:
            self.stat(path, **options)
        except NotFound as error:
            if error.code != "file_not_found":
                raise
            return False
        return True

    def list(self, path: GuestPath, **options: Unpack[opt.FileListOptions]) -> Iterator[types.File]:
        """file.list: what is in a directory, in the order of the names' bytes, down to ``depth``. ``limit`` is of one page."""
        return self._client.records(types.File, "file.list", self._places, {**_named(path), **options})

    def glob(
        self, path: GuestPath, pattern: str, **options: Unpack[opt.FileGlobOptions]
    ) -> Iterator[types.File]:
        """file.glob: what is below a directory and fits a pattern: ``*``, ``?``, ``**``, ``[a-z]``, ``{a,b}``."""
        asked: Dict[str, Any] = {**_named(path), "pattern": pattern, **options}
        return self._client.records(types.File, "file.glob", self._places, asked)

    def search(
        self, path: GuestPath, text: str, **options: Unpack[opt.FileSearchOptions]
    ) -> types.FileMatches:
        """file.search: the first match of each line below a directory. ``truncated``: there is more than ``limit``."""
        asked: Dict[str, Any] = {**_named(path), "text": text, **options}
        return self._client.record(types.FileMatches, "file.search", self._places, asked, extra_s=SLOW_S)

    def make_directory(self, path: GuestPath, **options: Unpack[opt.FileMakeDirectoryOptions]) -> types.File:
        """file.make_directory; with ``parents`` those that are missing too, and one that is there is no error."""
        return self._file("file.make_directory", {"path": _field(path), **options})

    def move(self, from_: GuestPath, to: GuestPath, **options: Unpack[opt.FileMoveOptions]) -> types.File:
        """file.move: in one step; replaces what stands there unless ``overwrite`` is false."""
        return self._file("file.move", {"from": _field(from_), "to": _field(to), **options})

    def copy(self, from_: GuestPath, to: GuestPath, **options: Unpack[opt.FileCopyOptions]) -> types.File:
        """file.copy: with modes, owners, times, symlinks and holes; ``recursive`` for a directory."""
        return self._file("file.copy", {"from": _field(from_), "to": _field(to), **options})

    def link(self, path: GuestPath, target: str, **options: Unpack[opt.FileLinkOptions]) -> types.File:
        """file.link: ``path`` becomes a symlink to ``target``, with ``hard`` another name of it."""
        return self._file("file.link", {"path": _field(path), "target": target, **options})

    def remove(self, path: GuestPath, **options: Unpack[opt.FileRemoveOptions]) -> None:
        """file.remove: with ``recursive`` all that is in it. Raises NotFound, Conflict (``directory_not_empty``)."""
        self._client.ask("file.remove", self._places, {**_named(path), **options})

    def watch(
        self, path: GuestPath, **options: Unpack[opt.FileWatchOptions]
    ) -> Generator[FileChange, None, None]:
        """file.watch: what changes in a directory, with ``recursive`` below it, until it is gone.

        Behind ``watching`` nothing is missed; where the connection breaks, or this reader is too slow, there is an ``overflow``.
        """
        asked: Dict[str, Any] = {**_named(path), **options}
        for name, data in follow_events(self._client, "file.watch", self._places, asked):
            if name == "change":
                yield FileChange(type="change", **read(types.FileEvent, data).__dict__)
            elif name in ("overflow", "reconnected"):
                yield FileChange(type="overflow")
            elif name == "watching":
                yield FileChange(type="watching")
            elif name == "end":
                return

    def pack(self, path: GuestPath, **options: Unpack[opt.FilePackOptions]) -> Generator[bytes, None, None]:
        """file.pack: a directory as a tar. What a sandbox packed may be made to harm: unpack it as an enemy's."""
        for piece in pieces_of(self._open("file.pack", path, options, {}, SLOW_S)):
            yield piece

    def unpack(
        self, path: GuestPath, data: Data, **options: Unpack[opt.FileUnpackOptions]
    ) -> types.FileUnpackAnswer:
        """file.unpack: a tar into a directory; nothing of it lands outside. What came before an error stays."""
        headers = {"content-type": "application/x-tar"}
        answer = self._upload("file.unpack", path, data, options, headers)
        return read(types.FileUnpackAnswer, answer)

    def upload_directory(
        self, local: LocalPath, path: GuestPath, **options: Unpack[opt.FileUnpackOptions]
    ) -> types.FileUnpackAnswer:
        """file.unpack: what is in a local directory into one of the sandbox, which is made where it is missing. All becomes root's."""
        return self.unpack(path, in_pieces(packed(local)), **{"parents": True, **options})  # type: ignore[arg-type]

    def download_directory(
        self,
        path: GuestPath,
        local: LocalPath,
        *,
        bytes_max: int = _DOWNLOAD_BYTES_MAX,
        **options: Unpack[opt.FilePackOptions],
    ) -> int:
        """file.pack: a directory of the sandbox into a new one of this machine; how many entries it has.

        It has its name when all of it is there, and nothing of it lands anywhere else, whatever the sandbox says. All is the caller's own;
        symlinks are kept as they are. Raises Conflict where ``local`` is there, LimitReached where it takes more than ``bytes_max``.
        """
        target = os.path.abspath(os.fsencode(local))
        # Before anything is asked for.
        refuse_existing(target)
        # It has no name that somebody else could use.
        with tempfile.TemporaryFile(dir=os.path.dirname(target)) as archive:
            copy(self.pack(path, **options), archive, bytes_max)
            archive.seek(0)
            return in_thread(unpack, archive, target)

    def _file(self, name: str, options: Mapping[str, Any]) -> types.File:
        return self._client.record(types.File, name, self._places, options, extra_s=SLOW_S)

    def _open(
        self, name: str, path: GuestPath, options: Mapping[str, Any], headers: Mapping[str, str], extra_s: float = 0.0
    ) -> Response:
        asked: Dict[str, Any] = {**_named(path), **options}
        return self._client.open(name, self._places, asked, headers=headers, extra_s=extra_s)

    def _upload(
        self, name: str, path: GuestPath, data: Data, options: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Any:
        asked: Dict[str, Any] = {**_named(path), **options}
        return self._client.upload(name, self._places, asked, body_of(data), headers=headers)


def _named(path: GuestPath) -> Dict[str, str]:
    """A path as a query has it."""
    name = _field(path)
    return {"path": name} if isinstance(name, str) else {"path_base64": name["base64"]}


def _field(path: GuestPath) -> Union[str, Dict[str, str]]:
    """A path as a body has it."""
    try:
        return os.fsdecode(path).encode().decode()
    except UnicodeEncodeError:
        return {"base64": base64.b64encode(os.fsencode(path)).decode()}


def _ranged(range: Optional[Tuple[int, Optional[int]]]) -> Dict[str, str]:
    if range is None:
        return {}
    begin, end = range
    if begin < 0 or (end is not None and end <= begin):
        raise BadRequest(f"{range} is no range of bytes", code="invalid_request")
    return {"range": f"bytes={begin}-{'' if end is None else end - 1}"}
