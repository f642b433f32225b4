"""Bodies that are more than a JSON: what is sent from files and generators, and what is read or saved piece by piece."""

from __future__ import annotations

import os
from typing import IO, Any, AsyncIterable, AsyncIterator, Iterator, Optional, Tuple, Union

from .._tar import LocalPath
from ..errors import BadRequest, LimitReached
from .wire import in_thread

_PIECE = 262_144

#: What can be uploaded: text is sent as UTF-8, a file from where it stands to its end.
AsyncData = Union[str, bytes, bytearray, memoryview, IO[bytes], AsyncIterable[bytes]]


def body_of(data: AsyncData) -> Tuple[AsyncIterable[bytes], Optional[int]]:
    """Its pieces, and how long it is where that is known."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        whole = bytes(data)
        return _whole(whole), len(whole)
    if hasattr(data, "read"):
        return _file(data), None
    if hasattr(data, "__aiter__"):
        return data, None
    raise BadRequest(f"a {type(data).__name__} can not be sent: give text, bytes, an open file or pieces of bytes", code="invalid_request")


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data


async def _file(file: Any) -> AsyncIterator[bytes]:
    while True:
        data = await in_thread(file.read, _PIECE)
        if not isinstance(data, bytes):
            raise BadRequest("the file is open as text: open it with mode 'rb'", code="invalid_request")
        if not data:
            return
        yield data


async def in_pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """What a generator reads from the disk."""
    while True:
        data: bytes = await in_thread(_next, pieces)
        if not data:
            return
        yield data


def _next(pieces: Iterator[bytes]) -> bytes:
    return next(pieces, b"")


async def save(pieces: AsyncIterator[bytes], path: LocalPath) -> None:
    """A local file, which takes the place of one that is there: when all has come, and not before."""
    target = os.fsencode(path)
    folder, name = os.path.split(os.path.abspath(target))
    part = os.path.join(folder, b".%b.%b.part" % (name[:200], os.urandom(6).hex().encode()))
    try:
        with await in_thread(_new_file, part) as file:
            await copy(pieces, file, None)
        await in_thread(os.replace, part, target)
    except BaseException:
        if os.path.lexists(part):
            os.unlink(part)
        raise


def _new_file(path: bytes) -> IO[bytes]:
    return open(path, "xb")


async def copy(pieces: AsyncIterator[bytes], file: IO[bytes], bytes_max: Optional[int]) -> None:
    """Into an open file. Raises LimitReached where it is longer."""
    size = 0
    async for data in pieces:
        size += len(data)
        if bytes_max is not None and size > bytes_max:
            raise LimitReached(f"it is longer than {bytes_max} bytes", code="too_long")
        await in_thread(file.write, data)
