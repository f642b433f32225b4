# Written by tools/python-sdk.ts from _async/exchange.py: do not change it here.
"""One request and its answer on a connection. An answer is read piece by piece, and is whole or an error: a body that ends early never
looks like its end.
"""

from __future__ import annotations

from types import TracebackType
from typing import Generator, Iterable, Callable, List, Optional, Type, Union

from .._http import HEAD_BYTES_MAX, Head, chunk_size, parse_head
from ..errors import ProtocolError, SquashError, Unreachable
from .wire import Wire

#: A line before a chunk, or behind all of them.
_LINE_BYTES_MAX = 8_192
#: Answers before the answer, and lines behind the last chunk.
_HEADS_MAX = 32
#: What is sent at once.
_SENT_BYTES = 262_144

Body = Union[bytes, Iterable[bytes]]


class Response:
    """An answer whose head has come. Close it, or read it to its end."""

    def __init__(self, wire: Wire, limit_s: float, release: Callable[[Wire], None]) -> None:
        self._wire: Optional[Wire] = wire
        self._limit_s = limit_s
        self._release = release
        self._rest = b""
        #: Left of the body, or of the chunk; None: until the connection ends.
        self._left: Optional[int] = 0
        self._is_chunked = False
        self._may_keep = True
        self.head = Head(0, {})
        #: The method and path that it answers.
        self.request = ""

    @property
    def status(self) -> int:
        return self.head.status

    def read_head(self) -> None:
        """Raises Unreachable where the connection ends before, ProtocolError where it is no HTTP"""
        for _ in range(_HEADS_MAX):
            self.head = parse_head(self._until(b"\r\n\r\n", HEAD_BYTES_MAX))
            # Those of 1xx only announce the real one.
            if self.status >= 200:
                break
        else:
            raise ProtocolError("what answers there announces an answer and gives none", code="no_http")
        self._is_chunked = self.head.is_chunked and self.head.length is None
        self._left = 0 if self._is_chunked else self.head.length
        self._may_keep = self._may_keep and self.head.keeps_open and self._left is not None
        if not self._is_chunked and self._left == 0:
            self._finish()

    def forbid_reuse(self) -> None:
        """Not all of the request was sent: nothing else may go this way."""
        self._may_keep = False

    def piece(self) -> bytes:
        """The next bytes of the body; empty behind the last. Raises Unreachable where it breaks off"""
        if self._wire is None:
            return b""
        try:
            if self._is_chunked and self._left == 0:
                self._next_chunk()
                if self._wire is None:
                    return b""
            data = self._rest or self._wire.read(self._limit_s)
            if not data:
                return self._ended()
            data, self._rest = (data, b"") if self._left is None else (data[: self._left], data[self._left :])
            if self._left is not None:
                self._left -= len(data)
                self._behind(data)
            return data
        except SquashError as error:
            error.request = error.request or self.request
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def read(self, bytes_max: int) -> bytes:
        """All of the body. Raises ProtocolError where it is longer"""
        pieces: List[bytes] = []
        size = 0
        while True:
            data = self.piece()
            if not data:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.append(data)
            size += len(data)
            if size > bytes_max:
                self.close()
                message = f"the answer is longer than {bytes_max} bytes"
                raise ProtocolError(message, code="too_long", request=self.request)

    def close(self) -> None:
        """Ends it where it is: what has not come is not waited for."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Whoever leaves a loop over it has no other way to say so.
        if getattr(self, "_wire", None) is not None:
            self._wire.close()  # type: ignore[union-attr]

    def _finish(self) -> None:
        wire, self._wire = self._wire, None
        if wire is None:
            return
        if self._may_keep and not self._rest:
            self._release(wire)
        else:
            wire.close()

    def _ended(self) -> bytes:
        if self._left is None:
            self._finish()
            return b""
        raise Unreachable("the daemon went away in the middle of an answer")

    def _behind(self, data: bytes) -> None:
        if self._left != 0:
            return
        if not self._is_chunked:
            self._finish()
        elif self._until(b"\r\n", 2) != b"":
            raise ProtocolError("the answer has a broken chunk", code="no_http")

    def _next_chunk(self) -> None:
        self._left = chunk_size(self._until(b"\r\n", _LINE_BYTES_MAX))
        if self._left > 0:
            return
        for _ in range(_HEADS_MAX):
            # Trailers say nothing that anybody here asks for.
            if self._until(b"\r\n", _LINE_BYTES_MAX) == b"":
                self._finish()
                return
        raise ProtocolError("the answer has too many trailers", code="no_http")

    def _until(self, mark: bytes, bytes_max: int) -> bytes:
        data = self._rest
        while True:
            end = data.find(mark)
            if 0 <= end <= bytes_max:
                self._rest = data[end + len(mark) :]
                return data[:end]
            if len(data) > bytes_max + len(mark):
                raise ProtocolError("what answers there speaks no HTTP: a line is too long", code="no_http")
            more = self._wire.read(self._limit_s) if self._wire is not None else b""
            if not more:
                raise Unreachable("the daemon closed the connection without an answer")
            data += more


def send_body(wire: Wire, body: Iterable[bytes], length: Optional[int], limit_s: float) -> bool:
    """In chunks where nobody knows how long it is. False: an answer came before its end, which says why."""
    sent = 0
    for data in body:
        for start in range(0, len(data), _SENT_BYTES):
            part = data[start : start + _SENT_BYTES]
            sent += len(part)
            if length is not None and sent > length:
                # One byte more would be a part of the next request.
                raise ProtocolError("what is sent has grown meanwhile", code="source_changed")
            framed = part if length is not None else b"%x\r\n%b\r\n" % (len(part), part)
            if not wire.write(framed, limit_s):
                return False
    if length is None:
        return wire.write(b"0\r\n\r\n", limit_s)
    if sent < length:
        raise ProtocolError("what is sent has become shorter meanwhile", code="source_changed")
    return True


def pieces_of(response: Response) -> Generator[bytes, None, None]:
    """The body, which is closed where nobody goes on."""
    try:
        while True:
            data = response.piece()
            if not data:
                return
            yield data
    finally:
        response.close()
