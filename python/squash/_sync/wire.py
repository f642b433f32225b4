"""A connection on a socket, and what else has to wait: `_async/wire.py` without a loop, written by hand as well."""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any, Callable, Optional, Tuple, TypeVar

from .._address import Address
from .._sockets import keep_looking, prepared_path, silent, tls_context, unreachable
from ..errors import Unreachable

_T = TypeVar("_T")
_READ_BYTES = 262_144

sleep = time.sleep


def in_thread(function: Callable[..., _T], *words: Any) -> _T:
    """Whoever calls waits anyway."""
    return function(*words)


class Wire:
    """Owned by one exchange at a time. Whoever fails in the middle of one closes it."""

    def __init__(self, connection: socket.socket, is_tls: bool) -> None:
        self._socket = connection
        self._is_tls = is_tls
        self._limit_s: Optional[float] = None
        self._process = os.getpid()

    @classmethod
    def connect(cls, address: Address, limit_s: float) -> Wire:
        try:
            return cls(_dial(address, limit_s), address.is_tls)
        except (OSError, UnicodeError) as error:
            raise unreachable(address, error, limit_s) from error

    def is_usable(self) -> bool:
        """Whether another request may go this way: nothing came unasked, and no fork shares it with another process."""
        return self._process == os.getpid() and not self._is_readable()

    def write(self, data: bytes, limit_s: float) -> bool:
        """False: an answer came before all was sent."""
        self._limit(limit_s)
        try:
            if self._is_tls:
                # Its records come at any time, so that something came says nothing.
                self._socket.sendall(data)
                return True
            rest = memoryview(data)
            while rest:
                if not self._wait_to_send(limit_s):
                    return False
                rest = rest[self._socket.send(rest) :]
            return True
        except socket.timeout:
            raise silent(limit_s) from None
        except OSError:
            # Whoever closed may have said why: the answer is read next.
            return False

    def read(self, limit_s: float) -> bytes:
        """What has come; empty at the end."""
        self._limit(limit_s)
        try:
            return self._socket.recv(_READ_BYTES)
        except socket.timeout:
            raise silent(limit_s) from None
        except OSError as error:
            raise Unreachable(f"the connection broke: {error}") from error

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        # That of a client which nobody closed.
        self._socket.close()

    def _limit(self, limit_s: float) -> None:
        if limit_s != self._limit_s:
            self._socket.settimeout(limit_s)
            self._limit_s = limit_s

    def _is_readable(self) -> bool:
        return _ready(self._socket, False, 0)[0]

    def _wait_to_send(self, limit_s: float) -> bool:
        """False: something came instead."""
        has_come, may_send = _ready(self._socket, True, limit_s)
        if not has_come and not may_send:
            raise silent(limit_s)
        return not has_come


def _ready(connection: socket.socket, is_sending: bool, limit_s: float) -> Tuple[bool, bool]:
    """Whether something came, and whether something may be sent."""
    if not hasattr(select, "poll"):
        came, sendable, _ = select.select([connection], [connection] if is_sending else [], [], limit_s)
        return bool(came), bool(sendable)
    poll = select.poll()
    poll.register(connection, select.POLLIN | (select.POLLOUT if is_sending else 0))
    happened = poll.poll(limit_s * 1_000)
    events = happened[0][1] if happened else 0
    return bool(events & ~select.POLLOUT), bool(events & select.POLLOUT)


def _dial(address: Address, limit_s: float) -> socket.socket:
    if address.path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(limit_s)
            with prepared_path(address.path) as path:
                connection.connect(path)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((address.host, address.port), timeout=limit_s)
    try:
        keep_looking(connection)
        if address.is_tls:
            return tls_context().wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise
    return connection
