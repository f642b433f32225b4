"""What streams tell: output of processes, changes of files, events. Told apart by ``type``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional, Tuple

from . import _record as r
from . import types
from ._problems import error_event
from ._record import Record, Shape
from .errors import ProtocolError

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from ._record import dataclass


@dataclass(frozen=True)
class Output(Record):
    """Bytes that a process wrote."""

    stream: Literal["stdout", "stderr", "pty"]
    data: bytes
    seq: int
    """the position behind them, in bytes of all output: what ``from_`` goes on behind"""
    type: Literal["output"] = "output"

    @property
    def text(self) -> str:
        """As text; what is no UTF-8 becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class Gap(Record):
    """Bytes that are not kept any more: the reader came too late."""

    bytes: int
    seq: int
    type: Literal["gap"] = "gap"


@dataclass(frozen=True)
class Exit(Record):
    """The end of a process, and of its output."""

    process: types.ProcessInfo
    seq: int
    type: Literal["exit"] = "exit"


@dataclass(frozen=True)
class FileChange(Record):
    """One change below a path that is watched.

    ``watching``: from now on nothing is missed; ``overflow``: changes were lost, look at everything again; ``change``: ``change`` says what
    happened to ``path``.
    """

    type: Literal["watching", "change", "overflow"]
    change: Literal["created", "changed", "attributes", "removed", "moved"] | None = None
    path: str | None = None
    path_base64: str | None = None


@dataclass(frozen=True)
class EventGap(Record):
    """Events with smaller ids were removed before this reader had them."""

    removed_before: int
    type: Literal["gap"] = "gap"
    _shape: ClassVar[Shape] = {"removed_before": r.integer}


class OutputReader:
    """Lines of a stream as output, each byte once: whatever a stream that was taken up again tells twice is left out."""

    def __init__(self, position: int, is_whole: bool) -> None:
        self.position = position
        #: Both streams are read, so that positions tell whether something is missing.
        self._is_whole = is_whole
        self.info: Optional[types.ProcessInfo] = None

    def event(self, said: Any) -> Output | Gap | Exit | None:
        """None: nothing that a reader wants to know. Raises SquashError where the daemon says that it can not go on."""
        kind = said.get("type") if isinstance(said, dict) else None
        if kind == "output":
            return self._output(said)
        if kind == "process":
            self.info = r.read(types.ProcessInfo, said.get("process"), "process")
        elif kind == "gap":
            seq, size = r.integer(said.get("seq"), "seq"), r.integer(said.get("bytes"), "bytes")
            if seq > self.position:
                self.position = seq
                return Gap(bytes=size, seq=seq, type="gap")
        elif kind == "exit":
            self.info = r.read(types.ProcessInfo, said.get("process"), "process")
            return Exit(process=self.info, seq=r.integer(said.get("seq"), "seq"), type="exit")
        elif kind == "error":
            raise error_event(said)
        # Others a newer daemon may have; `keep_alive` is only there to be heard.
        return None

    def _output(self, said: Any) -> Optional[Output]:
        seq, data = r.integer(said.get("seq"), "seq"), _data_of(said)
        start = seq - len(data)
        if start > self.position and self._is_whole:
            message = f"the daemon's stream leaves out bytes {self.position} to {start} and does not say so"
            raise ProtocolError(message, code="wrong_shape")
        if seq <= self.position:
            return None
        data = data[max(0, self.position - start) :]
        self.position = seq
        stream: Any = r.text(said.get("stream"), "stream")
        return Output(stream=stream, data=data, seq=seq, type="output")


def _data_of(said: Any) -> bytes:
    if "text" in said:
        return r.text(said["text"], "text").encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(r.text(said.get("base64"), "base64"), validate=True)
    except ValueError:
        raise ProtocolError("the daemon's answer has broken base64", code="wrong_shape") from None


class Lines:
    """Bytes of a stream as lines. Bounded: what answers is not trusted with our memory."""

    _BYTES_MAX = 4 * 1_048_576

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        if b"\n" not in data:
            self._rest += data
            lines = []
        else:
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
        if len(self._rest) > self._BYTES_MAX:
            raise ProtocolError("the daemon sent a line that is too long", code="too_long")
        return [line[:-1] if line.endswith(b"\r") else line for line in lines]


class ServerEvents:
    """Lines as server-sent events: (name, id, data)."""

    def __init__(self) -> None:
        self._name = "message"
        self._id: Optional[str] = None
        self._data: list[str] = []
        self._size = 0

    def line(self, line: bytes) -> Optional[Tuple[str, Optional[str], str]]:
        if not line:
            event = (self._name, self._id, "\n".join(self._data)) if self._data else None
            self.__init__()  # type: ignore[misc]
            return event
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value[1:] if value.startswith(" ") else value
        self._size += len(value)
        if self._size > Lines._BYTES_MAX:
            raise ProtocolError("the daemon sent an event that is too long", code="too_long")
        if field == "event":
            self._name = value
        elif field == "id":
            self._id = value
        elif field == "data":
            self._data.append(value)
        return None
