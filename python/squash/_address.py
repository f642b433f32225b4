"""Where the daemon is: what the program names, else the environment, else the Unix socket of the data directory, else the
loopback port. The same rules as the command line's, so that a program finds what ``squash ls`` finds.
"""

from __future__ import annotations

import os
import sys
from typing import Dict, Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import BadRequest

_PLACES = ("SQUASH_DATA", "SQUASH_DATA_DIR", "SQUASH_RUN", "SQUASH_PORT")
_PORT_DEFAULT = "8080"


class Address(NamedTuple):
    """Either ``path`` of a Unix socket, or ``host`` and ``port``."""

    path: Optional[str] = None
    host: str = ""
    port: int = 0
    is_tls: bool = False
    #: Path before the API's own, for a daemon behind a reverse proxy; without a slash at the end.
    prefix: str = ""

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """What the header Host says."""
        if self.path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def find_daemon(url: Optional[str], environment: Optional[Mapping[str, str]] = None) -> Address:
    env = dict(os.environ if environment is None else environment)
    if url is not None:
        return parse_address(url, "url")
    if env.get("SQUASH_SOCKET"):
        return Address(path=os.path.abspath(env["SQUASH_SOCKET"]))
    if env.get("SQUASH_API"):
        return parse_address(env["SQUASH_API"], "SQUASH_API")
    env = _with_dot_env(env)
    path = _socket_path(env)
    if os.path.exists(path):
        return Address(path=path)
    port = env.get("SQUASH_PORT") or _PORT_DEFAULT
    # 0 and off name no port; the socket is then the only way, and the message names it.
    if port in ("0", "off"):
        return Address(path=path)
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise _wrong(f'SQUASH_PORT is "{port}": a port is a number from 1 to 65535, or off')
    return Address(host="127.0.0.1", port=int(port))


def parse_address(text: str, source: str) -> Address:
    if text.startswith("unix:"):
        path = text[len("unix:") :]
        return Address(path=os.path.abspath(path[2:] if path.startswith("//") else path))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _wrong(f'{source} is no http, https or unix address: "{text}"') from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong(f'{source} is no http, https or unix address: "{text}"')
    if parts.username is not None or parts.query or parts.fragment:
        raise _wrong(f"{source} takes no user, query or fragment: the token is given as `token`")
    is_tls = parts.scheme == "https"
    host = parts.hostname
    if any(character <= " " or character in "\\\x7f" for character in host + parts.path):
        raise _wrong(f"{source} has characters that no address has")
    return Address(
        host=host,
        port=port if port is not None else 443 if is_tls else 80,
        is_tls=is_tls,
        prefix=parts.path.rstrip("/"),
    )


def _wrong(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_address", remedy="Give an address such as http://127.0.0.1:8080 or unix:/path")


def _socket_path(env: Mapping[str, str]) -> str:
    if env.get("SQUASH_RUN"):
        return os.path.abspath(os.path.join(env["SQUASH_RUN"], "api.sock"))
    return os.path.join(_data_directory(env), "run", "api.sock")


def _data_directory(env: Mapping[str, str]) -> str:
    for name in ("SQUASH_DATA", "SQUASH_DATA_DIR"):
        if env.get(name):
            return os.path.abspath(env[name])
    if os.path.isdir("/data") and os.access("/data", os.W_OK | os.X_OK):
        return "/data"
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        return "/var/lib/squash"
    base = env.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative value is to be ignored.
    return os.path.join(base if base.startswith("/") else os.path.join(_home(env), ".local/share"), "squash")


def _home(env: Mapping[str, str]) -> str:
    if sys.platform != "win32":
        import pwd

        try:
            # Not HOME, which sudo may leave pointing elsewhere.
            return pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            # A container's user without a row in the password database has only the variable.
            pass
    return env.get("HOME", "/")


def _with_dot_env(env: Dict[str, str]) -> Dict[str, str]:
    """The daemon reads ``.env`` where it is started, so a program there finds the same places. Only places are taken from it: a
    ``.env`` in a downloaded directory must not send our token to another host.
    """
    try:
        # Another user's, in /tmp say, would lead our token to a socket of theirs.
        if hasattr(os, "geteuid") and os.stat(".env").st_uid not in (0, os.geteuid()):
            return env
        with open(".env", encoding="utf-8") as file:
            lines = file.read(65_536).splitlines()
    except (OSError, ValueError):
        # None, or not readable: the daemon that could read it would be another user's.
        return env
    found = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        name = name.strip()
        if equals and name.startswith("export "):
            name = name[len("export ") :].strip()
        if equals and name in _PLACES:
            found[name] = value.strip().strip("\"'")
    return {**env, **{name: value for name, value in found.items() if name not in env}}
