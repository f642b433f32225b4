"""A connection on asyncio, and what else has to wait. `_sync/wire.py` is the same on sockets, written by hand as well.

A newcomer would use streams and `wait_for`: they cost a task for each read, and can not tell a writer that the answer is already there.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Callable, List, Optional, TypeVar

from .._address import Address
from .._sockets import keep_looking, prepared_path, silent, tls_context, unreachable
from ..errors import Unreachable

_T = TypeVar("_T")
#: Bytes that came and nobody has read, before no more are taken.
_UNREAD_BYTES_MAX = 262_144

sleep = asyncio.sleep


async def in_thread(function: Callable[..., _T], *words: Any) -> _T:
    """What waits for a disk must not hold up the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, lambda: function(*words))


class AsyncWire(asyncio.Protocol):
    """Owned by one exchange at a time. Whoever fails in the middle of one closes it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Optional[asyncio.Transport] = None
        self._parts: List[bytes] = []
        self._unread = 0
        self._has_ended = False
        self._is_full = False
        self._error: Optional[Exception] = None
        self._waiter: Optional[asyncio.Future[None]] = None

    @classmethod
    async def connect(cls, address: Address, limit_s: float) -> AsyncWire:
        loop = asyncio.get_running_loop()
        try:
            if address.path is not None:
                with prepared_path(address.path) as path:
                    dialling: Any = loop.create_unix_connection(cls, path)
                    _, wire = await asyncio.wait_for(dialling, limit_s)
            else:
                context = await in_thread(tls_context) if address.is_tls else None
                dialling = loop.create_connection(cls, address.host, address.port, ssl=context)
                _, wire = await asyncio.wait_for(dialling, limit_s)
        except (OSError, asyncio.TimeoutError, UnicodeError) as error:
            raise unreachable(address, error, limit_s) from error
        assert isinstance(wire, AsyncWire)
        return wire

    def is_usable(self) -> bool:
        """Whether another request may go this way: nothing came unasked, and it belongs to the loop that runs."""
        if self._has_ended or self._unread > 0 or self._transport is None:
            return False
        return not self._transport.is_closing() and self._loop is asyncio.get_running_loop()

    async def write(self, data: bytes, limit_s: float) -> bool:
        """False: an answer came before all was sent."""
        if self._has_ended or self._transport is None:
            return False
        self._transport.write(data)
        while self._is_full and not self._has_ended:
            if self._unread > 0:
                return False
            await self._wait(limit_s)
        return not self._has_ended and self._unread == 0

    async def read(self, limit_s: float) -> bytes:
        """What has come; empty at the end."""
        while not self._parts:
            if self._has_ended:
                if self._error is not None:
                    raise Unreachable(f"the connection broke: {self._error}") from self._error
                return b""
            await self._wait(limit_s)
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._unread = 0
        if self._transport is not None and not self._has_ended:
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()
            self._has_ended = True

    async def _wait(self, limit_s: float) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(limit_s, _expire, waiter, limit_s)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        keep_looking(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread += len(data)
        if self._unread > _UNREAD_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._has_ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._has_ended = True
        self._error = exc
        self._wake()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()


def _expire(waiter: asyncio.Future[None], limit_s: float) -> None:
    if not waiter.done():
        waiter.set_exception(silent(limit_s))
