"""Contexts: kernels in a sandbox that keep state between the cells that they run. They need the layer ``interpreter``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Mapping

from .. import types
from .._commands import takes_s
from .client import AsyncClient

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt

#: A kernel may have to start, and one that is interrupted has some seconds.
_SLACK_S = 60.0


class AsyncContext:
    """One of them: by ``box.contexts.create`` or ``box.contexts.get``."""

    def __init__(self, client: AsyncClient, box: str, info: types.Context) -> None:
        self._client = client
        self._places: Dict[str, object] = {"id": box, "context": info.context}
        self.name: str = info.context
        #: As it was when it was made, found, or looked at last.
        self.info: types.Context = info

    async def refresh(self) -> types.Context:
        """context.get: looks again. Raises NotFound."""
        self.info = await self._client.record(types.Context, "context.get", self._places, {})
        return self.info

    async def run(self, code: str, **options: Unpack[opt.ContextRunOptions]) -> types.Execution:
        """context.run: runs a cell and waits for its end, ``timeout_ms`` (300,000 unless given) at most.

        A cell that raises is a result with its ``error``. Raises NotFound, Conflict (``context_ended``, ``kernel_died``), LimitReached.
        """
        return await run_cell(self._client, self._places, code, options)

    async def interrupt(self) -> None:
        """context.interrupt: interrupts the cell that runs. Raises Conflict (``context_ended``)."""
        await self._client.ask("context.interrupt", self._places, {})

    async def restart(self) -> types.Context:
        """context.restart: ends the kernel with its state and starts another. Raises Conflict (``context_ended``)."""
        self.info = await self._client.record(types.Context, "context.restart", self._places, {})
        return self.info

    async def remove(self) -> None:
        """context.remove: ends it with its state. Raises NotFound."""
        await self._client.ask("context.remove", self._places, {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._places['id']}>"


class AsyncContexts:
    """The contexts of one sandbox."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def create(self, language: str = "python", **options: Unpack[opt.ContextCreateOptions]) -> AsyncContext:
        """context.create: a kernel of its own. Raises Conflict (``interpreter_missing``, ``context_exists``), LimitReached."""
        asked: Dict[str, Any] = {"language": language, **options}
        info = await self._client.record(types.Context, "context.create", {"id": self._box}, asked)
        return AsyncContext(self._client, self._box, info)

    async def list(self) -> AsyncIterator[AsyncContext]:
        """context.list: those that have not ended, oldest first."""
        answer = await self._client.record(types.ContextListAnswer, "context.list", {"id": self._box}, {})
        for info in answer.items:
            yield AsyncContext(self._client, self._box, info)

    async def get(self, name: str) -> AsyncContext:
        """context.get: by its name. Raises NotFound."""
        info = await self._client.record(types.Context, "context.get", {"id": self._box, "context": name}, {})
        return AsyncContext(self._client, self._box, info)


async def run_cell(
    client: AsyncClient, places: Mapping[str, object], code: str, options: Mapping[str, Any]
) -> types.Execution:
    extra_s = takes_s(options) + _SLACK_S
    return await client.record(types.Execution, "context.run", places, {"code": code, **options}, extra_s=extra_s)
