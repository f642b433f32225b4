"""Contexts of a sandbox: kernels that keep state between the cells that they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncGenerator, Dict, Mapping, Optional, Union

from .. import types
from .._commands import SLOW_S, takes_s
from .._executions import Execution, execution
from .._http import Head
from .._problems import error_event, read_json
from .._record import array, integer, read
from .._record import record as reading
from ..errors import SquashError, Unreachable
from ..streams import Gap
from .client import AsyncClient
from .following import AsyncRetry, lines_of

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt

CellEvent = Union[
    types.ContextEventCell,
    types.ContextEventStdout,
    types.ContextEventStderr,
    types.ContextEventResult,
    types.ContextEventClear,
    types.ContextEventException,
    types.ContextEventEnd,
    Gap,
]

_CLASSES: Dict[str, Any] = {
    "cell": types.ContextEventCell,
    "stdout": types.ContextEventStdout,
    "stderr": types.ContextEventStderr,
    "result": types.ContextEventResult,
    "clear": types.ContextEventClear,
    "exception": types.ContextEventException,
    "end": types.ContextEventEnd,
}
_NDJSON = "application/x-ndjson"


class AsyncContext:
    """One of them: by ``box.contexts.create`` or ``get``."""

    def __init__(self, client: AsyncClient, box: str, info: types.Context) -> None:
        self._client = client
        self._box = box
        self.name: str = info.context
        #: As it was when it was made, found, or looked at last.
        self.info: types.Context = info

    async def run(self, code: str, **options: Unpack[opt.ContextRunOptions]) -> Execution:
        """context.run: runs a cell and waits for its end.

        ``timeout_ms`` is 300,000 unless given; then the cell is interrupted. A cell that raises is a result; ``check()`` makes an error of
        it. Raises Conflict (``context_ended``), LimitReached, NotFound.
        """
        return await run_cell(self._client, self._places, code, options)

    async def stream(self, code: str, **options: Unpack[opt.ContextRunOptions]) -> AsyncGenerator[CellEvent, None]:
        """context.run: the same, each event as it comes: ``cell``, ``stdout``, ``stderr``, ``result``, ``clear``, ``exception``, ``end``.

        A connection that breaks is made again behind the last event; the cell runs on meanwhile.
        """
        seen = _Seen()
        try:
            response = await self._client.open(
                "context.run", self._places, {"code": code, **options}, headers={"accept": _NDJSON}, extra_s=SLOW_S
            )
            async for line in lines_of(response, _NDJSON):
                event = seen.event(read_json(line, Head(200, {})))
                if event is not None:
                    yield event
        except Unreachable:
            # Whoever does not know the cell's number can not ask for it.
            if seen.cell is None:
                raise
        if not seen.has_ended:
            if seen.cell is None:
                raise Unreachable("the daemon went away before it said which cell it is")
            async for event in self._rest(seen.cell, seen):
                yield event

    async def output(self, cell: int, *, after: int = 0) -> AsyncGenerator[CellEvent, None]:
        """context.output: what a cell did and does, behind the event ``after``. Raises NotFound (``cell_not_found``)."""
        async for event in self._rest(cell, _Seen(after)):
            yield event

    async def interrupt(self) -> None:
        """context.interrupt: the cell that runs; one that catches it goes on."""
        await self._client.ask("context.interrupt", self._places, {})

    async def restart(self) -> types.Context:
        """context.restart: another kernel, without state, in the place of this one."""
        self.info = await self._client.record(types.Context, "context.restart", self._places, {}, extra_s=SLOW_S)
        return self.info

    async def remove(self) -> None:
        """context.remove: ends it with all of its state."""
        await self._client.ask("context.remove", self._places, {})

    async def refresh(self) -> types.Context:
        """context.get: looks again. Raises NotFound."""
        self.info = await self._client.record(types.Context, "context.get", self._places, {})
        return self.info

    async def _rest(self, cell: int, seen: _Seen) -> AsyncGenerator[CellEvent, None]:
        retry = AsyncRetry()
        while True:
            broken: Optional[SquashError] = None
            try:
                asked = {"format": "ndjson", "after": seen.position}
                response = await self._client.open("context.output", {**self._places, "cell": cell}, asked)
                async for line in lines_of(response, _NDJSON):
                    event = seen.event(read_json(line, Head(200, {})))
                    if event is not None:
                        retry.progress()
                        yield event
                if seen.has_ended:
                    return
            except Unreachable as error:
                broken = error
            await retry.pause(broken)

    @property
    def _places(self) -> Dict[str, object]:
        return {"id": self._box, "context": self.name}


class AsyncContexts:
    """The contexts of one sandbox."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def create(
        self,
        language: Literal["python", "javascript", "typescript"] = "python",
        **options: Unpack[opt.ContextCreateOptions],
    ) -> AsyncContext:
        """context.create: its name is ``context``. Returns before the kernel has started; the first cell waits for it."""
        asked: Dict[str, Any] = {"language": language, **options}
        info = await self._client.record(types.Context, "context.create", {"id": self._box}, asked, extra_s=SLOW_S)
        return AsyncContext(self._client, self._box, info)

    async def list(self) -> list[AsyncContext]:
        """context.list: those that have not ended, oldest first."""
        answer = await self._client.ask("context.list", {"id": self._box}, {})
        items = answer.get("items") if isinstance(answer, dict) else None
        return [
            AsyncContext(self._client, self._box, info)
            for info in array(reading(types.Context))(items, "items")
        ]

    async def get(self, name: str) -> AsyncContext:
        """context.get. Raises NotFound."""
        info = await self._client.record(types.Context, "context.get", {"id": self._box, "context": name}, {})
        return AsyncContext(self._client, self._box, info)


async def run_cell(
    client: AsyncClient, places: Mapping[str, object], code: str, options: Mapping[str, Any]
) -> Execution:
    # It may wait for its kernel, and for cells before it.
    extra_s = takes_s(options) + SLOW_S
    return execution(await client.ask("context.run", places, {"code": code, **options}, extra_s=extra_s))


class _Seen:
    """How far a reader is."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.cell: Optional[int] = None
        self.has_ended = False

    def event(self, said: Any) -> Optional[CellEvent]:
        kind = said.get("type") if isinstance(said, dict) else None
        if kind == "error":
            raise error_event(said)
        if kind == "gap":
            self.position = integer(said.get("seq"), "seq")
            return Gap(bytes=integer(said.get("bytes"), "bytes"), seq=self.position, type="gap")
        if kind not in _CLASSES:
            # A newer daemon's, or only there to be heard.
            return None
        event: Any = read(_CLASSES[kind], said)
        if event.seq <= self.position and kind != "cell":
            return None
        self.position, self.cell = event.seq, event.cell
        self.has_ended = kind == "end"
        return event  # type: ignore[no-any-return]
