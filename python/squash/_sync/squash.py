# Written by tools/python-sdk.ts from _async/squash.py: do not change it here.
"""One daemon, as a program sees it: everything else is reached from here."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generator, Iterator, Dict, Optional, Tuple, Type

from .. import types
from .._address import Address, find_daemon
from .._commands import SLOW_S, Command, ExecResult, command_options, exec_result, takes_s
from .._record import array, read
from .._record import record as reading
from ..errors import BadRequest
from ..streams import EventGap
from .client import Client
from .following import follow_events
from .operator import (
    Approvals,
    Images,
    Keys,
    SshKeys,
    Bucket,
    Modules,
    Owners,
    Secrets,
    Volumes,
    Groups,
    Webhooks,
)
from .sandbox import Sandbox, create_sandbox, get_sandbox, list_sandboxes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt


class Squash:
    """A client of one daemon.

    url         ``http://…``, ``https://…`` or ``unix:/path``; without it the place that ``squash`` on the command line takes:
                SQUASH_SOCKET, SQUASH_API, the Unix socket of the data directory, http://127.0.0.1:8080
    token       the operator's token or a key; without it SQUASH_AUTH_TOKEN
    timeout_ms  how long the daemon may do nothing before a request ends with ``Unreachable``; what a command is given to run comes on top

    As a context manager it closes its connections at the end. Threads and tasks may share it.
    """

    def __init__(self, *, url: Optional[str] = None, token: Optional[str] = None, timeout_ms: int = 60_000) -> None:
        if timeout_ms <= 0:
            raise BadRequest("timeout_ms must be more than 0", code="invalid_request")
        #: For what has no name here yet: asks for an operation by its id.
        address = find_daemon(url)
        self.connection = Client(address, _token(token, address), timeout_ms / 1_000)
        self.sandboxes = Sandboxes(self.connection)
        self.modules = Modules(self.connection)
        self.bucket = Bucket(self.connection)
        self.images = Images(self.connection)
        self.volumes = Volumes(self.connection)
        self.secrets = Secrets(self.connection)
        self.keys = Keys(self.connection)
        self.ssh_keys = SshKeys(self.connection)
        self.owners = Owners(self.connection)
        self.approvals = Approvals(self.connection)
        self.webhooks = Webhooks(self.connection)
        self.groups = Groups(self.connection)

    @property
    def url(self) -> str:
        """Where the daemon is asked."""
        return str(self.connection.address)

    def info(self) -> types.DaemonInfo:
        """daemon.info: version, host, room and problems of the daemon."""
        return self.connection.record(types.DaemonInfo, "daemon.info", {}, {})

    def run(
        self, command: Command, *, sandbox: Optional[opt.SandboxCreate] = None, **options: Unpack[opt.ProcessExecOptions]
    ) -> ExecResult:
        """sandbox.run: runs one command in a sandbox of its own, of which nothing is left. See ``Sandbox.exec``."""
        fields: Dict[str, object] = {"exec": command_options(command, options)}
        if sandbox is not None:
            fields["sandbox"] = sandbox
        extra_s = takes_s(options) + SLOW_S
        answer = self.connection.ask("sandbox.run", {}, fields, extra_s=extra_s)
        return exec_result(answer.get("result") if isinstance(answer, dict) else answer)

    def audit(self, **filters: Unpack[opt.AuditListOptions]) -> Iterator[types.AuditEntry]:
        """audit.list: who asked for what, newest first."""
        return self.connection.records(types.AuditEntry, "audit.list", {}, filters)

    def events(
        self, *, after: Optional[int] = None, **filters: Unpack[opt.EventListOptions]
    ) -> Generator[types.Event | EventGap, None, None]:
        """event.list: what happens to sandboxes, as it happens, and none twice or lost where the connection breaks. Without end.

        It begins with what comes next, or behind the event ``after``; 0: with the oldest that is kept. An ``EventGap`` says that some are
        not kept any more.
        """
        place = None if after is None else str(after)
        asked: Dict[str, object] = {**filters, "follow": True}
        for name, data in follow_events(self.connection, "event.list", {}, asked, place):
            if name == "gap":
                yield read(EventGap, data)
            elif name != "reconnected":
                yield read(types.Event, data)

    def presets(self) -> list[types.PolicyPreset]:
        """policy.presets: names that stand for the hosts of a service in policies."""
        answer = self.connection.ask("policy.presets", {}, {})
        return array(reading(types.PolicyPreset))(answer, "the answer")  # type: ignore[no-any-return]

    def check_mount(self, host: str, **options: Unpack[opt.MountCheckOptions]) -> types.MountCheckAnswer:
        """mount.check: whether a sandbox would get a directory of the host, and what each rule says. Raises NotFound."""
        asked: Dict[str, Any] = {"host": host, **options}
        return self.connection.record(types.MountCheckAnswer, "mount.check", {}, asked)

    def ticket(self, path: str) -> types.Ticket:
        """ticket.create: opens this path once, within 30 s, for a browser, which can send no header."""
        return self.connection.record(types.Ticket, "ticket.create", {}, {"path": path})

    def close(self) -> None:
        """Closes connections that are kept; a program that has nothing else to do ends without it."""
        self.connection.close()

    def __enter__(self) -> Squash:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Sandboxes:
    """The daemon's sandboxes: to make one, to find one, to list them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, **options: Unpack[opt.SandboxCreateOptions]) -> Sandbox:
        """sandbox.create: from layers, a snapshot or another sandbox (``from_``). It takes commands when this returns.

        As a context manager it is removed at the end. Raises BadRequest, Unauthorized, NotFound, LimitReached.
        """
        return create_sandbox(self._client, options)

    def get(self, id: str) -> Sandbox:
        """sandbox.get: one that is there; nothing removes it at the end. Raises NotFound."""
        return get_sandbox(self._client, id)

    def list(self, **filters: Unpack[opt.SandboxListOptions]) -> Iterator[Sandbox]:
        """sandbox.list: those that the caller may see, newest first."""
        return list_sandboxes(self._client, filters)


#: What keys of the API begin with; the operator's token does not.
_KEY_PREFIX = "sqk_"

_shared: Dict[Tuple[Address, Optional[str]], Client] = {}


def shared_client() -> Client:
    """That of the environment: one for all that name no other."""
    address = find_daemon(None)
    key = (address, _token(None, address))
    if key not in _shared:
        # A program has one environment; one that changes it again and again keeps the last.
        _shared.clear()
        _shared[key] = Client(*key, 60.0)
        _shared[key].is_shared = True
    return _shared[key]


def _token(given: Optional[str], address: Address) -> Optional[str]:
    """A Unix socket's permissions are its token: whoever bound one there gets the operator's not from us. A key is sent there, too:
    whoever has one wants to be that key.
    """
    token = os.environ.get("SQUASH_AUTH_TOKEN", "") if given is None else given
    if any(not "!" <= character <= "~" for character in token):
        raise BadRequest("the token has characters that no token has", code="invalid_request")
    return token if token and (address.path is None or token.startswith(_KEY_PREFIX)) else None
