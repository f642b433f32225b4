"""What connections of both forms have in common."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ._address import Address
from .errors import Unreachable

if TYPE_CHECKING:
    import ssl


#: The longest path that a Unix socket's address holds.
_PATH_BYTES_MAX = 107


@contextmanager
def prepared_path(path: str) -> Iterator[str]:
    """A name of the socket that fits an address: a longer one is reached through a descriptor of its directory."""
    if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
        yield path
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def keep_looking(connection: Any) -> None:
    """Small pieces go at once; a machine that vanished is noticed while a long command says nothing."""
    if connection is None or connection.family == getattr(socket, "AF_UNIX", None):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_context: Optional[ssl.SSLContext] = None


def tls_context() -> ssl.SSLContext:
    """Made once: reading the authorities takes 30 ms."""
    global _context
    if _context is None:
        import ssl

        _context = ssl.create_default_context()
    return _context


def unreachable(address: Address, error: BaseException, limit_s: float) -> Unreachable:
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        why = "no daemon listens there"
    elif isinstance(error, PermissionError):
        why = "this user may not use the socket"
    elif not isinstance(error, OSError) or isinstance(error, TimeoutError) or "timed out" in str(error):
        why = f"nobody answered within {limit_s:g} s"
    else:
        why = str(error)
    remedy = "Start one with `squash serve`, or name another address: SQUASH_API, SQUASH_SOCKET or `url`"
    return Unreachable(f"can not reach the daemon at {address}: {why}", how="not_there", remedy=remedy)


def silent(limit_s: float) -> Unreachable:
    return Unreachable(f"the daemon did nothing for {limit_s:g} s", how="silent")
