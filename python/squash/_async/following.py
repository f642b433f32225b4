"""Streams that can be taken up again: where one breaks off it goes on behind the last thing that came."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Mapping, Optional, Tuple

from .._http import Head
from .._problems import read_json
from ..errors import ProtocolError, SquashError, Unreachable
from ..streams import Exit, Gap, Lines, Output, OutputReader, ServerEvents
from .client import AsyncClient
from .exchange import AsyncResponse
from .wire import sleep

#: Attempts without anything new before a broken stream is given up: the daemon may be starting again.
_PAUSES_S = (0.1, 0.5, 1.5, 3.0, 5.0)
_OK = Head(200, {})


class AsyncRetry:
    """Counts attempts since something came."""

    def __init__(self) -> None:
        self._attempts = 0

    def progress(self) -> None:
        self._attempts = 0

    async def pause(self, error: Optional[SquashError]) -> None:
        """Raises what went wrong when it has gone wrong too often."""
        if self._attempts == len(_PAUSES_S):
            raise error or Unreachable("the stream ends again and again")
        await sleep(_PAUSES_S[self._attempts])
        self._attempts += 1


async def lines_of(response: AsyncResponse, content_type: str) -> AsyncGenerator[bytes, None]:
    found = response.head.headers.get("content-type", "")
    async with response:
        if not found.startswith(content_type):
            raise ProtocolError(f'the answer is no {content_type} but "{found[:100]}"', code="wrong_shape")
        lines = Lines()
        while True:
            data = await response.piece()
            if not data:
                return
            for line in lines.feed(data):
                yield line


async def follow_output(
    client: AsyncClient, places: Mapping[str, object], options: Mapping[str, Any], reader: OutputReader
) -> AsyncGenerator[Output | Gap | Exit, None]:
    """Until the exit, or where ``follow`` is false until what is kept has been told."""
    retry = AsyncRetry()
    while True:
        broken: Optional[SquashError] = None
        try:
            asked = {**options, "format": "ndjson", "after": reader.position}
            response = await client.open("process.output", places, asked)
            async for line in lines_of(response, "application/x-ndjson"):
                event = reader.event(read_json(line, _OK))
                if event is None:
                    continue
                retry.progress()
                yield event
                if event.type == "exit":
                    return
            if options.get("follow") is False:
                return
        except Unreachable as error:
            broken = error
        await retry.pause(broken)


async def follow_events(
    client: AsyncClient,
    name: str,
    places: Mapping[str, object],
    options: Mapping[str, Any],
    last: Optional[str] = None,
) -> AsyncGenerator[Tuple[str, Any], None]:
    """(name, data) of server-sent events, for ever. After a break ``reconnected`` comes first, then what is behind the last id."""
    retry = AsyncRetry()
    while True:
        broken: Optional[SquashError] = None
        try:
            headers = {"accept": "text/event-stream"}
            if last is not None:
                headers["last-event-id"] = last
            response = await client.open(name, places, options, headers=headers)
            events = ServerEvents()
            async for line in lines_of(response, "text/event-stream"):
                event = events.line(line)
                if event is None:
                    continue
                retry.progress()
                last = event[1] or last
                yield event[0], read_json(event[2].encode(), _OK)
        except Unreachable as error:
            broken = error
        await retry.pause(broken)
        yield "reconnected", None
