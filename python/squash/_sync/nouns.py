# Written by tools/python-sdk.ts from _async/nouns.py: do not change it here.
"""What belongs to one sandbox beside processes and files: ports, network, snapshots, mounts, modules."""

from __future__ import annotations

from typing import Any, Generator, Iterator, Callable, Dict, Optional, Sequence, TYPE_CHECKING, Union

from .. import types
from .._commands import SLOW_S
from .._record import array, read
from .._record import record as reading
from .._tar import LocalPath
from .bodies import Data, body_of, save
from .client import Client
from .exchange import pieces_of
from .following import follow_events

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt


class Ports:
    """What listens in a sandbox, and who may see it."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._box = box

    def list(self) -> list[types.PortInfo]:
        """port.list: what listens now."""
        answer = self._client.ask("port.list", {"id": self._box}, {})
        items = answer.get("items") if isinstance(answer, dict) else None
        return array(reading(types.PortInfo))(items, "items")  # type: ignore[no-any-return]

    def set(self, port: int, access: Literal["public", "token"]) -> types.Port:
        """port.set: who may see it."""
        return self._client.record(types.Port, "port.set", self._places(port), {"access": access})

    def url(self, port: int, **options: Unpack[opt.PortUrlOptions]) -> types.PortLink:
        """port.url: a signed link for a browser, which ends after ``expires_s``."""
        return self._client.record(types.PortLink, "port.url", self._places(port), options)

    def wait(self, port: int, *, timeout_ms: int = 30_000) -> types.Port:
        """port.wait: until something listens. Raises SquashError (``port_unreachable``) where nothing does in time."""
        asked: Dict[str, Any] = {"timeout_ms": timeout_ms}
        extra_s = timeout_ms / 1_000
        return self._client.record(types.Port, "port.wait", self._places(port), asked, extra_s=extra_s)

    def _places(self, port: int) -> Dict[str, object]:
        return {"id": self._box, "port": port}


class Network:
    """What a sandbox may reach, and what it asked for."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._places = {"id": box}

    def policy(self) -> types.SandboxPolicy:
        """policy.get"""
        return self._client.record(types.SandboxPolicy, "policy.get", self._places, {})

    def set_policy(self, **policy: Unpack[opt.PolicySetOptions]) -> types.SandboxPolicy:
        """policy.set: all of it; what is left out is the default. Open connections that it refuses end."""
        return self._client.record(types.SandboxPolicy, "policy.set", self._places, policy)

    def test(self, to: str, **options: Unpack[opt.PolicyTestOptions]) -> types.PolicyTestAnswer:
        """policy.test: whether it may be reached, and which rule says so."""
        return self._client.record(types.PolicyTestAnswer, "policy.test", self._places, {"to": to, **options})

    def learn(self) -> types.PolicyLearnAnswer:
        """policy.learn: the policy that lets through what it has asked for so far."""
        return self._client.record(types.PolicyLearnAnswer, "policy.learn", self._places, {})

    def decisions(self, **filters: Unpack[opt.EgressDecisionsOptions]) -> types.EgressDecisions:
        """egress.decisions: what it asked for and how that was answered: the newest, or those behind the id ``after``; oldest first."""
        return self._client.record(types.EgressDecisions, "egress.decisions", self._places, filters)

    def follow_decisions(
        self, **filters: Unpack[opt.EgressDecisionsOptions]
    ) -> Generator[types.EgressDecision, None, None]:
        """egress.decisions: each as it comes, and none twice or lost where the connection breaks. Without end."""
        asked: Dict[str, Any] = {**filters, "follow": True}
        after = asked.pop("after", None)
        place = None if after is None else str(after)
        for name, data in follow_events(self._client, "egress.decisions", self._places, asked, place):
            if name == "decision":
                yield read(types.EgressDecision, data)


class Snapshots:
    """What was written in a sandbox, saved under labels."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._box = box

    def create(
        self, label: Optional[str] = None, **options: Unpack[opt.SnapshotCreateOptions]
    ) -> types.SnapshotTaken:
        """snapshot.create: its files as they are; it goes on. Without a label the daemon makes one. Raises Conflict, LimitReached."""
        asked: Dict[str, Any] = {**options}
        if label is not None:
            asked["label"] = label
        places = {"id": self._box}
        return self._client.record(types.SnapshotTaken, "snapshot.create", places, asked, extra_s=SLOW_S)

    def list(self, **filters: Unpack[opt.SnapshotListOptions]) -> Iterator[types.Snapshot]:
        """snapshot.list"""
        return self._client.records(types.Snapshot, "snapshot.list", {"id": self._box}, filters)

    def get(self, label: str) -> types.Snapshot:
        """snapshot.get. Raises NotFound."""
        return self._client.record(types.Snapshot, "snapshot.get", self._places(label), {})

    def update(self, snapshot: str, **fields: Unpack[opt.SnapshotUpdateOptions]) -> types.Snapshot:
        """snapshot.update: another name (``label``) or other labels."""
        return self._client.record(types.Snapshot, "snapshot.update", self._places(snapshot), fields)

    def remove(self, label: str) -> None:
        """snapshot.remove. Raises NotFound, Conflict."""
        self._client.ask("snapshot.remove", self._places(label), {}, extra_s=SLOW_S)

    def restore(self, label: str, **options: Unpack[opt.SnapshotRestoreOptions]) -> types.Sandbox:
        """snapshot.restore: the sandbox has the files of then; what runs in it is ended. With ``memory`` the processes of then go on."""
        asked: Dict[str, Any] = {"snapshot": label, **options}
        return self._client.record(types.Sandbox, "snapshot.restore", {"id": self._box}, asked, extra_s=SLOW_S)

    def diff(self, label: str, **options: Unpack[opt.SnapshotDiffOptions]) -> Iterator[types.Difference]:
        """snapshot.diff: what was added, changed and removed, against ``base``, ``current`` or another snapshot."""
        return self._client.records(types.Difference, "snapshot.diff", self._places(label), options)

    def download(self, label: str, local: LocalPath) -> None:
        """snapshot.download: whole, as a squashfs file, which takes the place of one that is there when all of it has come."""
        save(self.download_parts(label), local)

    def download_parts(self, label: str) -> Generator[bytes, None, None]:
        """snapshot.download: the same as it comes."""
        for piece in pieces_of(
            self._client.open("snapshot.download", self._places(label), {}, extra_s=SLOW_S)
        ):
            yield piece

    def upload(self, label: str, data: Data) -> types.Snapshot:
        """snapshot.upload: a squashfs file becomes a snapshot. Raises Conflict, BadRequest (``snapshot_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        return read(
            types.Snapshot,
            self._client.upload("snapshot.upload", self._places(label), {}, body, headers=headers),
        )

    def _places(self, label: str) -> Dict[str, object]:
        return {"id": self._box, "label": label}


class Mounts:
    """Volumes and directories of the host that a sandbox has attached."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._box = box

    def attach(self, path: str, **options: Unpack[opt.MountAttachOptions]) -> types.MountInfo:
        """mount.attach: a ``volume``, or a directory of the ``host`` that its operator allows. Raises Conflict, NotFound."""
        asked: Dict[str, Any] = {"path": path, **options}
        return self._client.record(types.MountInfo, "mount.attach", {"id": self._box}, asked, extra_s=SLOW_S)

    def list(self) -> Iterator[types.MountInfo]:
        """mount.list"""
        return self._client.records(types.MountInfo, "mount.list", {"id": self._box}, {})

    def detach(self, mount: Union[str, types.MountInfo]) -> None:
        """mount.detach. Raises NotFound, Conflict (``mount_busy``)."""
        id = mount if isinstance(mount, str) else mount.id
        self._client.ask("mount.detach", {"id": self._box, "mount": id}, {}, extra_s=SLOW_S)


class Changes:
    """What a sandbox made from the host has written over its directories."""

    def __init__(self, client: Client, box: str) -> None:
        self._client = client
        self._box = box

    def list(self, place: str) -> Iterator[types.ChangeListItem]:
        """change.list: by path below ``place``, a directory that the sandbox has at level ``cow``. Raises Conflict."""
        return self._client.records(types.ChangeListItem, "change.list", {"id": self._box}, {"place": place})

    def file_parts(self, place: str, path: str) -> Generator[bytes, None, None]:
        """change.file: what the sandbox has at a path of the list, a megabyte at most. Raises NotFound, Conflict."""
        asked = {"place": place, "path": path}
        for piece in pieces_of(self._client.open("change.file", {"id": self._box}, asked)):
            yield piece

    def apply(
        self, place: str, paths: Sequence[str], **options: Unpack[opt.ChangeApplyOptions]
    ) -> types.ChangeApplyAnswer:
        """change.apply: brings names of the list to the host, a directory before what is in it; each says what became of it."""
        asked: Dict[str, Any] = {"place": place, "paths": list(paths), **options}
        return self._client.record(types.ChangeApplyAnswer, "change.apply", {"id": self._box}, asked, extra_s=SLOW_S)


class ActiveModules:
    """The layers that a sandbox is stacked from."""

    def __init__(self, client: Client, box: str, seen: Callable[[types.Sandbox], None]) -> None:
        self._client = client
        self._box = box
        self._seen = seen

    def activate(self, module: str) -> types.Sandbox:
        """module.activate: one layer more; what runs in it is ended. Raises NotFound, Conflict."""
        asked = {"module": module}
        info = self._client.record(types.Sandbox, "module.activate", {"id": self._box}, asked, extra_s=SLOW_S)
        self._seen(info)
        return info
