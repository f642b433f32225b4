# Written by tools/python-sdk.ts from _async/sandbox.py: do not change it here.
"""One sandbox: what it is, what runs in it, and its end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Type

from .. import types
from .._commands import SLOW_S, Command, ExecResult, command_options, exec_result, takes_s
from .._executions import Execution
from .._record import read
from ..errors import NotFound, SquashError
from .client import Client
from .contexts import Contexts, run_cell
from .files import Files
from .operator import have_image
from .nouns import ActiveModules, Changes, Mounts, Network, Ports, Snapshots
from .process import Process, Processes, start_process

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt
    from .squash import Squash


class Sandbox:
    """Made by ``create``, ``fork``, ``get`` or ``list``. As a context manager it removes at the end what ``create`` or ``fork`` made."""

    def __init__(self, client: Client, info: types.Sandbox, *, is_owned: bool) -> None:
        self._client = client
        self._is_owned = is_owned
        self.id: str = info.id
        #: As it was when it was made, found, or looked at last.
        self.info: types.Sandbox = info
        self.processes = Processes(client, self.id)
        self.files = Files(client, self.id)
        self.ports = Ports(client, self.id)
        self.network = Network(client, self.id)
        self.snapshots = Snapshots(client, self.id)
        self.mounts = Mounts(client, self.id)
        self.changes = Changes(client, self.id)
        self.contexts = Contexts(client, self.id)
        self.modules = ActiveModules(client, self.id, self._see)

    @classmethod
    def create(
        cls, *, client: Optional[Squash] = None, **options: Unpack[opt.SandboxCreateOptions]
    ) -> Sandbox:
        """sandbox.create, with the client of the environment unless one is given: see ``squash.sandboxes.create``."""
        return create_sandbox(_client(client), options)

    @classmethod
    def get(cls, id: str, *, client: Optional[Squash] = None) -> Sandbox:
        """sandbox.get: one that is there; nothing removes it at the end. Raises NotFound."""
        return get_sandbox(_client(client), id)

    @classmethod
    def list(
        cls, *, client: Optional[Squash] = None, **filters: Unpack[opt.SandboxListOptions]
    ) -> Iterator[Sandbox]:
        """sandbox.list: those that the caller may see, newest first."""
        return list_sandboxes(_client(client), filters)

    def refresh(self) -> types.Sandbox:
        """sandbox.get: looks again. Raises NotFound."""
        return self._seen(self._ask("sandbox.get", {}))

    def update(self, **fields: Unpack[opt.SandboxUpdateOptions]) -> types.Sandbox:
        """sandbox.update: name, labels, environment, limits, times or policy; all of it or nothing."""
        return self._seen(self._ask("sandbox.update", fields, SLOW_S))

    def pause(self, **options: Unpack[opt.SandboxPauseOptions]) -> types.Sandbox:
        """sandbox.pause: it stands still, with its memory or with its files alone (``keep``)."""
        return self._seen(self._ask("sandbox.pause", options, SLOW_S))

    def resume(self) -> types.Sandbox:
        """sandbox.resume: it goes on."""
        return self._seen(self._ask("sandbox.resume", {}, SLOW_S))

    def usage(self) -> types.SandboxUsage:
        """sandbox.usage: processor, memory, disk and network, now and in the last ten minutes."""
        return read(types.SandboxUsage, self._ask("sandbox.usage", {}))

    def refused_paths(self, **options: Unpack[opt.SandboxPathsOptions]) -> types.RefusedPaths:
        """sandbox.paths: which paths its programs were refused, where it was made with ``from_.host.trace_paths``."""
        return read(types.RefusedPaths, self._ask("sandbox.paths", options))

    def fork(self, **options: Unpack[opt.SandboxCreateOptions]) -> Sandbox:
        """sandbox.create from this one: its files, limits, policy and environment, where the options name no others. It goes on."""
        return create_sandbox(self._client, {**options, "from_": {"sandbox": self.id}})

    def exec(self, command: Command, **options: Unpack[opt.ProcessExecOptions]) -> ExecResult:
        """process.exec: runs a command and waits for its end.

        A text is a shell line, a list is words that no shell sees. ``timeout_ms`` is 300,000 unless given. A command that fails is a
        result; ``check()`` makes an error of it. Sent again after a broken connection it does not run again. Raises NotFound, Conflict,
        LimitReached.
        """
        return exec_result(self._ask("process.exec", command_options(command, options), takes_s(options)))

    def start(self, command: Command, **options: Unpack[opt.ProcessStartOptions]) -> Process:
        """process.start: runs a command in the background, whether or not anybody looks on.

        ``stdin=True`` keeps its input open, ``pty={"rows": 24, "columns": 80}`` gives it a terminal, ``tag`` a name. Without
        ``timeout_ms`` it runs until it ends.
        """
        return start_process(self._client, self.id, command, options)

    def run_code(
        self,
        code: str,
        *,
        language: Literal["python", "javascript", "typescript"] = "python",
        **options: Unpack[opt.ContextRunOptions],
    ) -> Execution:
        """context.run in the language's default context, which keeps its state: see ``Context.run``."""
        return run_cell(self._client, {"id": self.id, "context": f"default-{language}"}, code, options)

    def snapshot(
        self, label: Optional[str] = None, **options: Unpack[opt.SnapshotCreateOptions]
    ) -> types.SnapshotTaken:
        """snapshot.create: see ``box.snapshots.create``."""
        return self.snapshots.create(label, **options)

    def restore(self, label: str, **options: Unpack[opt.SnapshotRestoreOptions]) -> types.Sandbox:
        """snapshot.restore: see ``box.snapshots.restore``."""
        self.info = self.snapshots.restore(label, **options)
        return self.info

    def remove(self, **options: Unpack[opt.SandboxDestroyOptions]) -> None:
        """sandbox.destroy: ends everything in it and removes it with its files and snapshots. Raises NotFound."""
        self._ask("sandbox.destroy", options)
        self._is_owned = False

    def keep(self) -> Sandbox:
        """Nothing removes it at the end."""
        self._is_owned = False
        return self

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            if self._is_owned:
                self.remove()
        except NotFound:
            # Its time was over, or somebody else removed it.
            self._is_owned = False
        except SquashError:
            # What went wrong inside is what the program wants to hear.
            if error is None:
                raise
        finally:
            if self._client.is_shared:
                # Nobody else closes what it keeps, and a loop may end here. It opens others where it is used again.
                self._client.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _see(self, info: types.Sandbox) -> None:
        self.info = info

    def _seen(self, answer: object) -> types.Sandbox:
        self._see(read(types.Sandbox, answer))
        return self.info

    def _ask(self, name: str, options: Mapping[str, Any], extra_s: float = 0.0) -> Any:
        return self._client.ask(name, {"id": self.id}, options, extra_s=extra_s)


def create_sandbox(client: Client, options: Mapping[str, Any]) -> Sandbox:
    if options.get("image") is not None:
        have_image(client, options["image"])
    info = client.record(types.Sandbox, "sandbox.create", {}, options, extra_s=SLOW_S)
    return Sandbox(client, info, is_owned=True)


def get_sandbox(client: Client, id: str) -> Sandbox:
    return Sandbox(client, client.record(types.Sandbox, "sandbox.get", {"id": id}, {}), is_owned=False)


def list_sandboxes(client: Client, filters: Mapping[str, Any]) -> Iterator[Sandbox]:
    for info in client.records(types.Sandbox, "sandbox.list", {}, filters):
        yield Sandbox(client, info, is_owned=False)


def _client(squash: Optional[Squash]) -> Client:
    from .squash import shared_client

    return shared_client() if squash is None else squash.connection
