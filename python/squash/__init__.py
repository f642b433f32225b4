"""Squash: sandboxes for AI agents.

    from squash import Sandbox

    with Sandbox.create() as box:
        print(box.exec("echo hello").stdout)

``AsyncSandbox`` and ``AsyncSquash`` are the same with ``await``. Names of options, fields and error codes are those of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._commands import Command, ExecResult
from ._executions import Execution
from ._operations import VERSION as __version__
from ._sync.sandbox import Sandbox
from ._sync.squash import Squash
from .errors import (
    BadRequest,
    CommandFailed,
    Conflict,
    LimitReached,
    NotFound,
    ProtocolError,
    SquashError,
    TimedOut,
    Unauthorized,
    Unreachable,
)

from .streams import EventGap, Exit, FileChange, Gap, Output

if TYPE_CHECKING:
    from ._async.sandbox import AsyncSandbox
    from ._async.squash import AsyncSquash

__all__ = [
    "AsyncSandbox",
    "AsyncSquash",
    "BadRequest",
    "Command",
    "CommandFailed",
    "Conflict",
    "EventGap",
    "ExecResult",
    "Execution",
    "Exit",
    "FileChange",
    "Gap",
    "LimitReached",
    "NotFound",
    "Output",
    "ProtocolError",
    "Sandbox",
    "Squash",
    "SquashError",
    "TimedOut",
    "Unauthorized",
    "Unreachable",
    "__version__",
]

#: asyncio takes 40 ms to import: only who asks for it waits for it.
_LATER = {"AsyncSandbox": "sandbox", "AsyncSquash": "squash"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"._async.{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found
