# Written by tools/python-sdk.ts from _async/context.py: do not change it here.
"""Contexts: kernels in a sandbox that keep state between the cells that they run. They need the layer ``interpreter``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Dict, Mapping

from .. import types
from .._commands import takes_s
from .client import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt

#: A kernel may have to start, and one that is interrupted has some seconds.
_SLACK_S = 60.0


class Context:
    """One of them: by ``box.contexts.create`` or ``box.contexts.get``."""

    def __init__(self, client: Client, box: str, info: types.Context) -> None:
        self._client = client
        self._places: Dict[str, object] = {"id": box, "context": info.context}
        self.name: str = info.context
        #: As it was when it was made, found, or looked at last.
        self.info: types.Context = info

    def refresh(self) -> types.Context:
        """context.get: looks again. Raises NotFound."""
        self.info = self._client.record(types.Context, "context.get", self._places, {})
        return self.info

    def run(self, code: str, **options: Unpack[opt.ContextRunOptions]) -> types.Execution:
        """context.run: runs a cell and waits for its end, ``timeout_ms`` (300,000 unless given) at most.

        A cell that raises is a result with its ``error``. Raises NotFound, Conflict (``context_ended``, ``kernel_died``), LimitReached.
        """
        return run_cell(self._client, self._places, code, options)

    def interrupt(self) -> None:
        """context.interrupt: interrupts the cell that runs. Raises Conflict (``context_ended``)."""
        self._client.ask("context.interrupt", self._places, {})

    def restart(self) -> types.Context:
        """context.restart: ends the kernel with its state and starts another. Raises Conflict (``context_ended``)."""
        self.info = self._client.record(types.Context, "context.restart", self._places, {})
        return self.info

    def remove(self) -> None:
        """context.remove: ends it with its state. Raises NotFound."""
        self._client.ask("context.remove", self._places, {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._places['id']}>"


class Contexts:
    """The contexts of one sandbox."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._box = box

    def create(self, language: str = "python", **options: Unpack[opt.ContextCreateOptions]) -> Context:
        """context.create: a kernel of its own. Raises Conflict (``interpreter_missing``, ``context_exists``), LimitReached."""
        asked: Dict[str, Any] = {"language": language, **options}
        info = self._client.record(types.Context, "context.create", {"id": self._box}, asked)
        return Context(self._client, self._box, info)

    def list(self) -> Iterator[Context]:
        """context.list: those that have not ended, oldest first."""
        answer = self._client.record(types.ContextListAnswer, "context.list", {"id": self._box}, {})
        for info in answer.items:
            yield Context(self._client, self._box, info)

    def get(self, name: str) -> Context:
        """context.get: by its name. Raises NotFound."""
        info = self._client.record(types.Context, "context.get", {"id": self._box, "context": name}, {})
        return Context(self._client, self._box, info)


def run_cell(
    client: Client, places: Mapping[str, object], code: str, options: Mapping[str, Any]
) -> types.Execution:
    extra_s = takes_s(options) + _SLACK_S
    return client.record(types.Execution, "context.run", places, {"code": code, **options}, extra_s=extra_s)
