"""One daemon, as a program sees it: everything else is reached from here."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, Dict, Optional, Tuple, Type

from .. import types
from .._address import Address, find_daemon
from .._commands import SLOW_S, Command, ExecResult, command_options, exec_result, takes_s
from .._record import array, read
from .._record import record as reading
from ..errors import BadRequest
from ..streams import EventGap
from .client import AsyncClient
from .following import follow_events
from .operator import (
    AsyncApprovals,
    AsyncImages,
    AsyncKeys,
    AsyncSshKeys,
    AsyncBucket,
    AsyncModules,
    AsyncOwners,
    AsyncSecrets,
    AsyncVolumes,
    AsyncGroups,
    AsyncWebhooks,
)
from .sandbox import AsyncSandbox, create_sandbox, get_sandbox, list_sandboxes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import options as opt


class AsyncSquash:
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
        self.connection = AsyncClient(address, _token(token, address), timeout_ms / 1_000)
        self.sandboxes = AsyncSandboxes(self.connection)
        self.modules = AsyncModules(self.connection)
        self.bucket = AsyncBucket(self.connection)
        self.images = AsyncImages(self.connection)
        self.volumes = AsyncVolumes(self.connection)
        self.secrets = AsyncSecrets(self.connection)
        self.keys = AsyncKeys(self.connection)
        self.ssh_keys = AsyncSshKeys(self.connection)
        self.owners = AsyncOwners(self.connection)
        self.approvals = AsyncApprovals(self.connection)
        self.webhooks = AsyncWebhooks(self.connection)
        self.groups = AsyncGroups(self.connection)

    @property
    def url(self) -> str:
        """Where the daemon is asked."""
        return str(self.connection.address)

    async def info(self) -> types.DaemonInfo:
        """daemon.info: version, host, room and problems of the daemon."""
        return await self.connection.record(types.DaemonInfo, "daemon.info", {}, {})

    async def run(
        self, command: Command, *, sandbox: Optional[opt.SandboxCreate] = None, **options: Unpack[opt.ProcessExecOptions]
    ) -> ExecResult:
        """sandbox.run: runs one command in a sandbox of its own, of which nothing is left. See ``Sandbox.exec``."""
        fields: Dict[str, object] = {"exec": command_options(command, options)}
        if sandbox is not None:
            fields["sandbox"] = sandbox
        extra_s = takes_s(options) + SLOW_S
        answer = await self.connection.ask("sandbox.run", {}, fields, extra_s=extra_s)
        return exec_result(answer.get("result") if isinstance(answer, dict) else answer)

    def audit(self, **filters: Unpack[opt.AuditListOptions]) -> AsyncIterator[types.AuditEntry]:
        """audit.list: who asked for what, newest first."""
        return self.connection.records(types.AuditEntry, "audit.list", {}, filters)

    async def events(
        self, *, after: Optional[int] = None, **filters: Unpack[opt.EventListOptions]
    ) -> AsyncGenerator[types.Event | EventGap, None]:
        """event.list: what happens to sandboxes, as it happens, and none twice or lost where the connection breaks. Without end.

        It begins with what comes next, or behind the event ``after``; 0: with the oldest that is kept. An ``EventGap`` says that some are
        not kept any more.
        """
        place = None if after is None else str(after)
        asked: Dict[str, object] = {**filters, "follow": True}
        async for name, data in follow_events(self.connection, "event.list", {}, asked, place):
            if name == "gap":
                yield read(EventGap, data)
            elif name != "reconnected":
                yield read(types.Event, data)

    async def presets(self) -> list[types.PolicyPreset]:
        """policy.presets: names that stand for the hosts of a service in policies."""
        answer = await self.connection.ask("policy.presets", {}, {})
        return array(reading(types.PolicyPreset))(answer, "the answer")  # type: ignore[no-any-return]

    async def check_mount(self, host: str, **options: Unpack[opt.MountCheckOptions]) -> types.MountCheckAnswer:
        """mount.check: whether a sandbox would get a directory of the host, and what each rule says. Raises NotFound."""
        asked: Dict[str, Any] = {"host": host, **options}
        return await self.connection.record(types.MountCheckAnswer, "mount.check", {}, asked)

    async def ticket(self, path: str) -> types.Ticket:
        """ticket.create: opens this path once, within 30 s, for a browser, which can send no header."""
        return await self.connection.record(types.Ticket, "ticket.create", {}, {"path": path})

    async def aclose(self) -> None:
        """Closes connections that are kept; a program that has nothing else to do ends without it."""
        await self.connection.aclose()

    async def __aenter__(self) -> AsyncSquash:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()


class AsyncSandboxes:
    """The daemon's sandboxes: to make one, to find one, to list them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, **options: Unpack[opt.SandboxCreateOptions]) -> AsyncSandbox:
        """sandbox.create: from layers, a snapshot or another sandbox (``from_``). It takes commands when this returns.

        As a context manager it is removed at the end. Raises BadRequest, Unauthorized, NotFound, LimitReached.
        """
        return await create_sandbox(self._client, options)

    async def get(self, id: str) -> AsyncSandbox:
        """sandbox.get: one that is there; nothing removes it at the end. Raises NotFound."""
        return await get_sandbox(self._client, id)

    def list(self, **filters: Unpack[opt.SandboxListOptions]) -> AsyncIterator[AsyncSandbox]:
        """sandbox.list: those that the caller may see, newest first."""
        return list_sandboxes(self._client, filters)


#: What keys of the API begin with; the operator's token does not.
_KEY_PREFIX = "sqk_"

_shared: Dict[Tuple[Address, Optional[str]], AsyncClient] = {}


def shared_client() -> AsyncClient:
    """That of the environment: one for all that name no other."""
    address = find_daemon(None)
    key = (address, _token(None, address))
    if key not in _shared:
        # A program has one environment; one that changes it again and again keeps the last.
        _shared.clear()
        _shared[key] = AsyncClient(*key, 60.0)
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
