"""What belongs to one sandbox beside processes and files: ports, network, snapshots, mounts, modules."""

from __future__ import annotations

from typing import Any, AsyncGenerator, AsyncIterator, Callable, Dict, Optional, Sequence, TYPE_CHECKING, Union

from .. import types
from .._commands import SLOW_S
from .._record import array, read
from .._record import record as reading
from .._tar import LocalPath
from .bodies import AsyncData, body_of, save
from .client import AsyncClient
from .exchange import pieces_of
from .following import follow_events

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt


class AsyncPorts:
    """What listens in a sandbox, and who may see it."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def list(self) -> list[types.PortInfo]:
        """port.list: what listens now."""
        answer = await self._client.ask("port.list", {"id": self._box}, {})
        items = answer.get("items") if isinstance(answer, dict) else None
        return array(reading(types.PortInfo))(items, "items")  # type: ignore[no-any-return]

    async def set(self, port: int, access: Literal["public", "token"]) -> types.Port:
        """port.set: who may see it."""
        return await self._client.record(types.Port, "port.set", self._places(port), {"access": access})

    async def url(self, port: int, **options: Unpack[opt.PortUrlOptions]) -> types.PortLink:
        """port.url: a signed link for a browser, which ends after ``expires_s``."""
        return await self._client.record(types.PortLink, "port.url", self._places(port), options)

    async def wait(self, port: int, *, timeout_ms: int = 30_000) -> types.Port:
        """port.wait: until something listens. Raises SquashError (``port_unreachable``) where nothing does in time."""
        asked: Dict[str, Any] = {"timeout_ms": timeout_ms}
        extra_s = timeout_ms / 1_000
        return await self._client.record(types.Port, "port.wait", self._places(port), asked, extra_s=extra_s)

    def _places(self, port: int) -> Dict[str, object]:
        return {"id": self._box, "port": port}


class AsyncNetwork:
    """What a sandbox may reach, and what it asked for."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._places = {"id": box}

    async def policy(self) -> types.SandboxPolicy:
        """policy.get"""
        return await self._client.record(types.SandboxPolicy, "policy.get", self._places, {})

    async def set_policy(self, **policy: Unpack[opt.PolicySetOptions]) -> types.SandboxPolicy:
        """policy.set: all of it; what is left out is the default. Open connections that it refuses end."""
        return await self._client.record(types.SandboxPolicy, "policy.set", self._places, policy)

    async def test(self, to: str, **options: Unpack[opt.PolicyTestOptions]) -> types.PolicyTestAnswer:
        """policy.test: whether it may be reached, and which rule says so."""
        return await self._client.record(types.PolicyTestAnswer, "policy.test", self._places, {"to": to, **options})

    async def learn(self) -> types.PolicyLearnAnswer:
        """policy.learn: the policy that lets through what it has asked for so far."""
        return await self._client.record(types.PolicyLearnAnswer, "policy.learn", self._places, {})

    async def decisions(self, **filters: Unpack[opt.EgressDecisionsOptions]) -> types.EgressDecisions:
        """egress.decisions: what it asked for and how that was answered: the newest, or those behind the id ``after``; oldest first."""
        return await self._client.record(types.EgressDecisions, "egress.decisions", self._places, filters)

    async def follow_decisions(
        self, **filters: Unpack[opt.EgressDecisionsOptions]
    ) -> AsyncGenerator[types.EgressDecision, None]:
        """egress.decisions: each as it comes, and none twice or lost where the connection breaks. Without end."""
        asked: Dict[str, Any] = {**filters, "follow": True}
        after = asked.pop("after", None)
        place = None if after is None else str(after)
        async for name, data in follow_events(self._client, "egress.decisions", self._places, asked, place):
            if name == "decision":
                yield read(types.EgressDecision, data)


class AsyncSnapshots:
    """What was written in a sandbox, saved under labels."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def create(
        self, label: Optional[str] = None, **options: Unpack[opt.SnapshotCreateOptions]
    ) -> types.SnapshotTaken:
        """snapshot.create: its files as they are; it goes on. Without a label the daemon makes one. Raises Conflict, LimitReached."""
        asked: Dict[str, Any] = {**options}
        if label is not None:
            asked["label"] = label
        places = {"id": self._box}
        return await self._client.record(types.SnapshotTaken, "snapshot.create", places, asked, extra_s=SLOW_S)

    def list(self, **filters: Unpack[opt.SnapshotListOptions]) -> AsyncIterator[types.Snapshot]:
        """snapshot.list"""
        return self._client.records(types.Snapshot, "snapshot.list", {"id": self._box}, filters)

    async def get(self, label: str) -> types.Snapshot:
        """snapshot.get. Raises NotFound."""
        return await self._client.record(types.Snapshot, "snapshot.get", self._places(label), {})

    async def update(self, snapshot: str, **fields: Unpack[opt.SnapshotUpdateOptions]) -> types.Snapshot:
        """snapshot.update: another name (``label``) or other labels."""
        return await self._client.record(types.Snapshot, "snapshot.update", self._places(snapshot), fields)

    async def remove(self, label: str) -> None:
        """snapshot.remove. Raises NotFound, Conflict."""
        await self._client.ask("snapshot.remove", self._places(label), {}, extra_s=SLOW_S)

    async def restore(self, label: str, **options: Unpack[opt.SnapshotRestoreOptions]) -> types.Sandbox:
        """snapshot.restore: the sandbox has the files of then; what runs in it is ended. With ``memory`` the processes of then go on."""
        asked: Dict[str, Any] = {"snapshot": label, **options}
        return await self._client.record(types.Sandbox, "snapshot.restore", {"id": self._box}, asked, extra_s=SLOW_S)

    def diff(self, label: str, **options: Unpack[opt.SnapshotDiffOptions]) -> AsyncIterator[types.Difference]:
        """snapshot.diff: what was added, changed and removed, against ``base``, ``current`` or another snapshot."""
        return self._client.records(types.Difference, "snapshot.diff", self._places(label), options)

    async def download(self, label: str, local: LocalPath) -> None:
        """snapshot.download: whole, as a squashfs file, which takes the place of one that is there when all of it has come."""
        await save(self.download_parts(label), local)

    async def download_parts(self, label: str) -> AsyncGenerator[bytes, None]:
        """snapshot.download: the same as it comes."""
        async for piece in pieces_of(
            await self._client.open("snapshot.download", self._places(label), {}, extra_s=SLOW_S)
        ):
            yield piece

    async def upload(self, label: str, data: AsyncData) -> types.Snapshot:
        """snapshot.upload: a squashfs file becomes a snapshot. Raises Conflict, BadRequest (``snapshot_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        return read(
            types.Snapshot,
            await self._client.upload("snapshot.upload", self._places(label), {}, body, headers=headers),
        )

    def _places(self, label: str) -> Dict[str, object]:
        return {"id": self._box, "label": label}


class AsyncMounts:
    """Volumes and directories of the host that a sandbox has attached."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    async def attach(self, path: str, **options: Unpack[opt.MountAttachOptions]) -> types.MountInfo:
        """mount.attach: a ``volume``, or a directory of the ``host`` that its operator allows. Raises Conflict, NotFound."""
        asked: Dict[str, Any] = {"path": path, **options}
        return await self._client.record(types.MountInfo, "mount.attach", {"id": self._box}, asked, extra_s=SLOW_S)

    def list(self) -> AsyncIterator[types.MountInfo]:
        """mount.list"""
        return self._client.records(types.MountInfo, "mount.list", {"id": self._box}, {})

    async def detach(self, mount: Union[str, types.MountInfo]) -> None:
        """mount.detach. Raises NotFound, Conflict (``mount_busy``)."""
        id = mount if isinstance(mount, str) else mount.id
        await self._client.ask("mount.detach", {"id": self._box, "mount": id}, {}, extra_s=SLOW_S)


class AsyncChanges:
    """What a sandbox made from the host has written over its directories."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client = client
        self._box = box

    def list(self, place: str) -> AsyncIterator[types.ChangeListItem]:
        """change.list: by path below ``place``, a directory that the sandbox has at level ``cow``. Raises Conflict."""
        return self._client.records(types.ChangeListItem, "change.list", {"id": self._box}, {"place": place})

    async def file_parts(self, place: str, path: str) -> AsyncGenerator[bytes, None]:
        """change.file: what the sandbox has at a path of the list, a megabyte at most. Raises NotFound, Conflict."""
        asked = {"place": place, "path": path}
        async for piece in pieces_of(await self._client.open("change.file", {"id": self._box}, asked)):
            yield piece

    async def apply(
        self, place: str, paths: Sequence[str], **options: Unpack[opt.ChangeApplyOptions]
    ) -> types.ChangeApplyAnswer:
        """change.apply: brings names of the list to the host, a directory before what is in it; each says what became of it."""
        asked: Dict[str, Any] = {"place": place, "paths": list(paths), **options}
        return await self._client.record(types.ChangeApplyAnswer, "change.apply", {"id": self._box}, asked, extra_s=SLOW_S)


class AsyncActiveModules:
    """The layers that a sandbox is stacked from."""

    def __init__(self, client: AsyncClient, box: str, seen: Callable[[types.Sandbox], None]) -> None:
        self._client = client
        self._box = box
        self._seen = seen

    async def activate(self, module: str) -> types.Sandbox:
        """module.activate: one layer more; what runs in it is ended. Raises NotFound, Conflict."""
        asked = {"module": module}
        info = await self._client.record(types.Sandbox, "module.activate", {"id": self._box}, asked, extra_s=SLOW_S)
        self._seen(info)
        return info
