# Written by tools/python-sdk.ts from _async/bodies.py: do not change it here.
"""Bodies that are more than a JSON: what is sent from files and generators, and what is read or saved piece by piece."""

from __future__ import annotations

import os
from types import TracebackType
from typing import IO, Any, Iterable, Iterator, Iterator, Optional, Tuple, Type, Union

from .._tar import LocalPath
from ..errors import BadRequest, LimitReached
from .exchange import Response
from .wire import in_thread

_PIECE = 262_144

#: What can be uploaded: text is sent as UTF-8, a file from where it stands to its end.
Data = Union[str, bytes, bytearray, memoryview, IO[bytes], Iterable[bytes]]


def body_of(data: Data) -> Tuple[Iterable[bytes], Optional[int]]:
    """Its pieces, and how long it is where that is known."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        whole = bytes(data)
        return _whole(whole), len(whole)
    if hasattr(data, "read"):
        return _file(data), None
    if hasattr(data, "__iter__"):
        return data, None
    raise BadRequest(f"a {type(data).__name__} can not be sent: give text, bytes, an open file or pieces of bytes", code="invalid_request")


def _whole(data: bytes) -> Iterator[bytes]:
    if data:
        yield data


def _file(file: Any) -> Iterator[bytes]:
    while True:
        data = in_thread(file.read, _PIECE)
        if not isinstance(data, bytes):
            raise BadRequest("the file is open as text: open it with mode 'rb'", code="invalid_request")
        if not data:
            return
        yield data


def in_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What a generator reads from the disk."""
    while True:
        data: bytes = in_thread(_next, pieces)
        if not data:
            return
        yield data


def _next(pieces: Iterator[bytes]) -> bytes:
    return next(pieces, b"")


class Download:
    """A body that is on its way: read it, save it, or go over its pieces. Whoever stops before its end closes it, best by ``with``."""

    def __init__(self, response: Response) -> None:
        self._response = response
        #: Bytes; None where the daemon does not know it yet.
        self.size: Optional[int] = None if response.head.is_chunked else response.head.length

    def __iter__(self) -> Iterator[bytes]:
        with self._response:
            while True:
                data = self._response.piece()
                if not data:
                    return
                yield data

    def read(self) -> bytes:
        """All of it. Raises Unreachable where it breaks off."""
        return b"".join([piece for piece in self])

    def save(self, path: LocalPath, *, bytes_max: Optional[int] = None) -> None:
        """All of it as a local file, which takes the place of one that is there: when it is whole, and not before."""
        target = os.fsencode(path)
        folder, name = os.path.split(os.path.abspath(target))
        part = os.path.join(folder, b".%b.%b.part" % (name[:200], os.urandom(6).hex().encode()))
        try:
            self.copy_to(in_thread(open, part, "xb"), bytes_max)
            in_thread(os.replace, part, target)
        except BaseException:
            if os.path.lexists(part):
                os.unlink(part)
            raise
        finally:
            self.close()

    def copy_to(self, file: IO[bytes], bytes_max: Optional[int]) -> None:
        size = 0
        with file:
            for data in self:
                size += len(data)
                if bytes_max is not None and size > bytes_max:
                    message = f"it is longer than {bytes_max} bytes"
                    raise LimitReached(message, code="too_long", request=self._response.request)
                in_thread(file.write, data)

    def close(self) -> None:
        """What has not come is not waited for."""
        self._response.close()

    def __enter__(self) -> Download:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
