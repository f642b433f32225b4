"""Processes of a sandbox: they run whether or not anybody looks on, and outlive clients and daemons."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, Dict, Mapping, Optional, Union

from .. import types
from .._commands import Command, ExecResult, command_options
from .._record import read
from ..errors import TimedOut
from ..streams import Exit, Gap, Output, OutputReader
from .client import AsyncClient
from .following import follow_output

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt

#: One question for an end that may be far: proxies end what is silent for longer.
_WAIT_MS = 30_000
#: For a line or a port.
_HAPPENS_MS = 60_000


class AsyncProcess:
    """One of them: by ``box.start`` or ``box.processes.get``."""

    def __init__(self, client: AsyncClient, box: str, info: types.ProcessInfo) -> None:
        self._client = client
        self._places: Dict[str, object] = {"id": box, "process": info.process}
        #: Its number in the sandbox.
        self.number: int = info.process
        self.tag: Optional[str] = info.tag
        #: As it was when it was started, found, or looked at last.
        self.info: types.ProcessInfo = info

    async def refresh(self) -> types.ProcessInfo:
        """process.get: looks again. Raises NotFound."""
        self.info = await self._client.record(types.ProcessInfo, "process.get", self._places, {})
        return self.info

    async def output(
        self, *, from_: int = 0, **options: Unpack[opt.ProcessOutputOptions]
    ) -> AsyncGenerator[Output | Gap | Exit, None]:
        """process.output: what it wrote from this position on, then what it writes, until its ``Exit``.

        A connection that breaks is made again behind the last byte that came: none comes twice, and none is left out but by a ``Gap``.
        ``follow=False``: only what is kept now. Raises NotFound, Conflict (``output_not_kept``), LimitReached, Unreachable.
        """
        reader = OutputReader(from_, "streams" not in options)
        try:
            async for event in follow_output(self._client, self._places, options, reader):
                yield event
        finally:
            self.info = reader.info or self.info

    async def write(self, data: Union[str, bytes], *, eof: bool = False) -> int:
        """process.stdin: input, taken when this returns; how many bytes. ``eof``: nothing comes behind it.

        Raises Conflict (``stdin_closed``, ``process_ended``), SquashError (``stdin_blocked``).
        """
        content = data.encode() if isinstance(data, str) else data
        answer = await self._client.record(
            types.ProcessStdinAnswer, "process.stdin", self._places, {"eof": True} if eof else {}, content=content
        )
        return answer.bytes

    async def close_stdin(self) -> None:
        """process.stdin: its input ends."""
        await self.write(b"", eof=True)

    async def wait(
        self,
        *,
        text: Optional[str] = None,
        pattern: Optional[str] = None,
        port: Optional[int] = None,
        after: int = 0,
        timeout_ms: Optional[int] = None,
    ) -> types.ProcessWait:
        """process.wait: until it has ended; or until a line with ``text``, or of ``pattern`` (``*`` is anything), behind the position
        ``after``; or until ``port`` of the sandbox's loopback listens. ``timeout_ms`` is 60,000 unless given, but the end is waited for as
        long as it takes.

        Raises TimedOut (``wait_timeout``), Conflict (``process_ended``: it can not happen any more), NotFound.
        """
        options: Dict[str, Any] = {"for_": "exit"}
        if text is not None or pattern is not None:
            options = {"for_": "log", "text": text, "pattern": pattern, "after": after}
        elif port is not None:
            options = {"for_": "port", "port": port}
        if timeout_ms is None and options["for_"] != "exit":
            timeout_ms = _HAPPENS_MS
        ends = None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000
        while True:
            left = _WAIT_MS if ends is None else max(0, min(_WAIT_MS, round((ends - time.monotonic()) * 1_000)))
            try:
                asked = {**options, "timeout_ms": left}
                found = await self._client.record(
                    types.ProcessWait, "process.wait", self._places, asked, extra_s=left / 1_000
                )
                self.info = found.process
                return found
            except TimedOut as error:
                if error.code != "wait_timeout" or (ends is not None and time.monotonic() >= ends):
                    raise

    async def signal(self, name: Union[str, int]) -> None:
        """process.signal: a name such as ``TERM`` or a number, to all of its process group. Raises Conflict (``process_ended``)."""
        await self._client.ask("process.signal", self._places, {"signal": name})

    async def resize(self, columns: int, rows: int) -> None:
        """process.resize: the size of its terminal."""
        await self._client.ask("process.resize", self._places, {"columns": columns, "rows": rows})

    async def result(self) -> ExecResult:
        """Waits for its end; how it ended, with the output that is kept (as text) as ``exec`` answers it."""
        await self.wait()
        parts: Dict[str, list[bytes]] = {"stdout": [], "stderr": [], "pty": []}
        truncated = False
        async for event in self.output(follow=False):
            if event.type == "output":
                parts.setdefault(event.stream, []).append(event.data)
            elif event.type == "gap":
                truncated = True
        said = {name: b"".join(data).decode("utf-8", "replace") for name, data in parts.items()}
        fields: Dict[str, Any] = {**self.info.__dict__, "encoding": "text", "truncated": truncated, "stderr": said["stderr"]}
        return ExecResult(**fields, stdout=said["stdout"] or said["pty"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} of {self._places['id']}>"


class AsyncProcesses:
    """The processes of one sandbox."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def list(self, **filters: Unpack[opt.ProcessListOptions]) -> AsyncIterator[AsyncProcess]:
        """process.list: newest first, those that ended too."""
        async for info in self._client.records(types.ProcessInfo, "process.list", {"id": self._box}, filters):
            yield AsyncProcess(self._client, self._box, info)

    async def get(self, which: Union[int, str]) -> AsyncProcess:
        """process.get: by number, or by tag: the latest that runs, or else the latest. Raises NotFound."""
        places = {"id": self._box, "process": which if isinstance(which, int) else f"tag:{which}"}
        info = await self._client.record(types.ProcessInfo, "process.get", places, {})
        return AsyncProcess(self._client, self._box, info)


async def start_process(client: AsyncClient, box: str, command: Command, options: Mapping[str, Any]) -> AsyncProcess:
    answer = await client.ask("process.start", {"id": box}, command_options(command, options))
    return AsyncProcess(client, box, read(types.ProcessInfo, answer))
