# Written by tools/python-sdk.ts from _async/operator.py: do not change it here.
"""What belongs to a daemon: modules, images, volumes, secrets, keys, owners, approvals, webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, Iterator, Dict, Optional, Type, TypeVar

from .. import types
from .._commands import SLOW_S
from .._record import Record, array, read
from .._record import record as reading
from .._tar import LocalPath
from ..errors import SquashError
from .bodies import Data, body_of, save
from .client import Client
from .exchange import pieces_of
from .following import follow_events

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt

_R = TypeVar("_R", bound=Record)


class _AsyncNoun:
    def __init__(self, client: Client) -> None:
        self._client = client


class Modules(_AsyncNoun):
    """The layers that sandboxes are stacked from."""

    def list(self, **filters: Unpack[opt.ModuleListOptions]) -> Iterator[types.Module]:
        """module.list"""
        return self._client.records(types.Module, "module.list", {}, filters)

    def get(self, name: str) -> types.ModuleDetails:
        """module.get. Raises NotFound."""
        return self._client.record(types.ModuleDetails, "module.get", {"name": name}, {})

    def describe(self, name: str, manifest: opt.ModuleDescribeOptions) -> types.ModuleDetails:
        """module.describe: what it is made of, as who built it says. Raises NotFound, BadRequest where the manifest is of another file."""
        return self._client.record(types.ModuleDetails, "module.describe", {"name": name}, manifest)

    def verify(self, name: str) -> types.ModuleDetails:
        """module.verify: reads all of it again. Raises NotFound, SquashError (``layer_corrupt``) where it is not what its manifest says."""
        return self._client.record(types.ModuleDetails, "module.verify", {"name": name}, {}, extra_s=SLOW_S)

    def download(self, name: str, local: LocalPath) -> None:
        """module.download: a squashfs file, which takes the place of one that is there when all of it has come."""
        save(self.download_parts(name), local)

    def download_parts(self, name: str) -> Generator[bytes, None, None]:
        """module.download: the same as it comes."""
        for piece in pieces_of(self._client.open("module.download", {"name": name}, {}, extra_s=SLOW_S)):
            yield piece

    def import_(self, name: str, data: Data, **options: Unpack[opt.ModuleImportOptions]) -> types.Module:
        """module.import: a squashfs file becomes a module. Raises Conflict, BadRequest (``module_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        answer = self._client.upload("module.import", {"name": name}, options, body, headers=headers)
        return read(types.Module, answer)

    def gc(self, *, dry_run: bool = False) -> types.GcAnswer:
        """module.gc: removes unpacked layers that no sandbox stands on; with ``dry_run`` it only tells which would go."""
        return self._client.record(types.GcAnswer, "module.gc", {}, {"dry_run": dry_run}, extra_s=SLOW_S)

    def remove(self, name: str) -> None:
        """module.remove. Raises NotFound, Conflict (``module_in_use``)."""
        self._client.ask("module.remove", {"name": name}, {}, extra_s=SLOW_S)


class Bucket(_AsyncNoun):
    """The bucket that the daemon keeps modules and snapshots in."""

    def get(self) -> types.Bucket:
        """bucket.get. Raises NotFound where the daemon has none."""
        return self._client.record(types.Bucket, "bucket.get", {}, {})

    def list(self, prefix: str = "") -> types.BucketList:
        """bucket.list"""
        return self._client.record(types.BucketList, "bucket.list", {}, {"prefix": prefix})

    def push(self, wish: opt.BucketPushOptions) -> None:
        """bucket.push: returns when it is there. Raises NotFound, Conflict where the bucket has another one of its name."""
        self._client.ask("bucket.push", {}, wish, extra_s=SLOW_S)

    def pull(self, wish: opt.BucketPullOptions) -> None:
        """bucket.pull: returns when it is here. Raises NotFound."""
        self._client.ask("bucket.pull", {}, wish, extra_s=SLOW_S)

    def remove(self, key: str) -> None:
        """bucket.remove: an object by its key, for every machine."""
        self._client.ask("bucket.remove", {}, {"key": key})


class Images(_AsyncNoun):
    """OCI images, which sandboxes are made from instead of modules."""

    def list(self, **filters: Unpack[opt.ImageListOptions]) -> Iterator[types.Image]:
        """image.list"""
        return self._client.records(types.Image, "image.list", {}, filters)

    def get(self, image: str) -> types.Image:
        """image.get. Raises NotFound."""
        return self._client.record(types.Image, "image.get", {"image": image}, {})

    def pull(self, reference: str, *, again: bool = False) -> types.Image:
        """image.pull: to its end, such as of ``python:3.12-slim``. Raises SquashError (``registry_denied``, ``image_unsupported``, …)."""
        return pull_image(self._client, reference, again=again)

    def import_(self, data: Data, **options: Unpack[opt.ImageImportOptions]) -> types.Image:
        """image.import: a docker-archive or an OCI layout as a tar. Raises SquashError (``image_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        answer = self._client.upload("image.import", {}, options, body, headers=headers)
        return read(types.Image, answer)

    def commit(self, **options: Unpack[opt.ImageCommitOptions]) -> types.Image:
        """image.commit: an image of a sandbox, or of a snapshot of it. Raises NotFound."""
        return self._client.record(types.Image, "image.commit", {}, options, extra_s=SLOW_S)

    def push(self, image: str, *, destination: Optional[str] = None) -> types.ImagePush:
        """image.push: to its end; without a destination to where its name says. Raises NotFound, SquashError (``registry_denied``, …)."""
        asked = {} if destination is None else {"destination": destination}
        while True:
            push = self._client.record(types.ImagePush, "image.push", {"image": image}, asked, extra_s=SLOW_S)
            if push.state == "ready":
                return push

    def export(self, image: str, local: LocalPath) -> None:
        """image.export: one tar, an OCI layout and a docker-archive at once, as ``podman load`` and ``docker load`` read it."""
        save(self.export_parts(image), local)

    def export_parts(self, image: str) -> Generator[bytes, None, None]:
        """image.export: the same as it comes."""
        for piece in pieces_of(self._client.open("image.export", {"image": image}, {}, extra_s=SLOW_S)):
            yield piece

    def flatten(self, image: str, **options: Unpack[opt.ImageFlattenOptions]) -> types.ModuleDetails:
        """image.flatten: one module of all of it, such as ``300-tools``. Raises NotFound, Conflict."""
        asked = {"image": image}
        return self._client.record(types.ModuleDetails, "image.flatten", asked, options, extra_s=SLOW_S)

    def remove(self, image: str) -> None:
        """image.remove: sandboxes that were made from it keep what they need. Raises NotFound."""
        self._client.ask("image.remove", {"image": image}, {}, extra_s=SLOW_S)


def pull_image(client: Client, reference: str, *, again: bool = False) -> types.Image:
    """Asked again while it is under way, so that no request waits for a whole registry."""
    while True:
        asked = {"reference": reference, "again": again}
        pull = client.record(types.ImagePull, "image.pull", {}, asked, extra_s=SLOW_S)
        if pull.image is not None:
            return pull.image
        again = False


def have_image(client: Client, reference: str) -> None:
    """Before a create. Who may not pull gets what is here, as the create says."""
    try:
        pull_image(client, reference)
    except SquashError as error:
        if error.code != "forbidden":
            raise


class Volumes(_AsyncNoun):
    """Directories that outlive sandboxes. They are named by name or id."""

    def create(self, name: str, **options: Unpack[opt.VolumeCreateOptions]) -> types.VolumeInfo:
        """volume.create; with ``from_`` a copy. Raises Conflict, LimitReached."""
        asked: Dict[str, Any] = {"name": name, **options}
        return self._client.record(types.VolumeInfo, "volume.create", {}, asked, extra_s=SLOW_S)

    def list(self, **filters: Unpack[opt.VolumeListOptions]) -> Iterator[types.VolumeInfo]:
        """volume.list"""
        return self._client.records(types.VolumeInfo, "volume.list", {}, filters)

    def get(self, volume: str) -> types.VolumeInfo:
        """volume.get. Raises NotFound."""
        return self._client.record(types.VolumeInfo, "volume.get", {"volume": volume}, {})

    def remove(self, volume: str) -> None:
        """volume.remove. Raises NotFound, Conflict (``volume_in_use``)."""
        self._client.ask("volume.remove", {"volume": volume}, {}, extra_s=SLOW_S)

    def snapshot(
        self, volume: str, name: str, **options: Unpack[opt.VolumeSnapshotOptions]
    ) -> types.VolumeInfo:
        """volume.snapshot: its files as they are, as a volume that nothing changes."""
        places = {"volume": volume}
        asked: Dict[str, Any] = {"name": name, **options}
        return self._client.record(types.VolumeInfo, "volume.snapshot", places, asked, extra_s=SLOW_S)


class Secrets(_AsyncNoun):
    """Keys that sandboxes use and never see."""

    def list(self) -> list[types.Secret]:
        """secret.list: without their values."""
        return _all(types.Secret, self._client.ask("secret.list", {}, {}))

    def set(self, name: str, **fields: Unpack[opt.SecretSetOptions]) -> types.Secret:
        """secret.set: makes it or changes it."""
        return self._client.record(types.Secret, "secret.set", {"secret": name}, fields)

    def remove(self, name: str) -> None:
        """secret.remove. Raises NotFound."""
        self._client.ask("secret.remove", {"secret": name}, {})


class Keys(_AsyncNoun):
    """Who may ask, and for what."""

    def create(self, name: str, **options: Unpack[opt.KeyCreateOptions]) -> types.KeyCreated:
        """key.create: the only answer that has its ``token``."""
        return self._client.record(types.KeyCreated, "key.create", {}, {"name": name, **options})

    def list(self, **filters: Unpack[opt.KeyListOptions]) -> Iterator[types.Key]:
        """key.list"""
        return self._client.records(types.Key, "key.list", {}, filters)

    def self(self) -> types.KeySelf:
        """key.self: whose token this client has."""
        return self._client.record(types.KeySelf, "key.self", {}, {})

    def get(self, key: str) -> types.Key:
        """key.get. Raises NotFound."""
        return self._client.record(types.Key, "key.get", {"key": key}, {})

    def remove(self, key: str) -> None:
        """key.remove: it holds no more. Raises NotFound."""
        self._client.ask("key.remove", {"key": key}, {})


class SshKeys(_AsyncNoun):
    """Public keys that log in over SSH, where the daemon has its gateway."""

    def create(self, name: str, **options: Unpack[opt.SshKeyCreateOptions]) -> types.SshKey:
        """ssh_key.create: lets it log in, into its owner's sandboxes."""
        return self._client.record(types.SshKey, "ssh_key.create", {}, {"name": name, **options})

    def list(self, **filters: Unpack[opt.SshKeyListOptions]) -> Iterator[types.SshKey]:
        """ssh_key.list"""
        return self._client.records(types.SshKey, "ssh_key.list", {}, filters)

    def get(self, key: str) -> types.SshKey:
        """ssh_key.get. Raises NotFound."""
        return self._client.record(types.SshKey, "ssh_key.get", {"key": key}, {})

    def remove(self, key: str) -> None:
        """ssh_key.remove: nobody logs in with it any more. Raises NotFound."""
        self._client.ask("ssh_key.remove", {"key": key}, {})


class Owners(_AsyncNoun):
    """What everybody has, and may have."""

    def list(self, **filters: Unpack[opt.OwnerListOptions]) -> Iterator[types.Owner]:
        """owner.list"""
        return self._client.records(types.Owner, "owner.list", {}, filters)

    def quota(self, owner: str) -> types.Owner:
        """owner.quota: what it may have, and has."""
        return self._client.record(types.Owner, "owner.quota", {"owner": owner}, {})

    def set_quota(self, owner: str, **quota: Unpack[opt.OwnerSetQuotaOptions]) -> types.Owner:
        """owner.set_quota: None is no bound; what is left out stays."""
        return self._client.record(types.Owner, "owner.set_quota", {"owner": owner}, quota)


class StandingApprovals(_AsyncNoun):
    """What was allowed for always."""

    def list(self) -> list[types.StandingApproval]:
        """approval.standing_list"""
        return _all(types.StandingApproval, self._client.ask("approval.standing_list", {}, {}))

    def remove(self, id: int) -> None:
        """approval.standing_remove. Raises NotFound."""
        self._client.ask("approval.standing_remove", {"standing": id}, {})


class Approvals(_AsyncNoun):
    """What waits for a person."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.standing = StandingApprovals(client)

    def list(self, **filters: Unpack[opt.ApprovalListOptions]) -> Iterator[types.Approval]:
        """approval.list"""
        return self._client.records(types.Approval, "approval.list", {}, filters)

    def get(self, id: str) -> types.Approval:
        """approval.get. Raises NotFound."""
        return self._client.record(types.Approval, "approval.get", {"approval": id}, {})

    def decide(
        self, id: str, decision: Literal["allow", "deny"], **options: Unpack[opt.ApprovalDecideOptions]
    ) -> types.Approval:
        """approval.decide. Raises Conflict (``approval_expired``, ``approval_decided``)."""
        asked: Dict[str, Any] = {"decision": decision, **options}
        return self._client.record(types.Approval, "approval.decide", {"approval": id}, asked)


class Webhooks(_AsyncNoun):
    """Events sent to an address, signed."""

    def create(self, url: str, **options: Unpack[opt.WebhookCreateOptions]) -> types.WebhookMade:
        """webhook.create: the only answer that has its ``secret``."""
        return self._client.record(types.WebhookMade, "webhook.create", {}, {"url": url, **options})

    def list(self) -> Iterator[types.Webhook]:
        """webhook.list"""
        return self._client.records(types.Webhook, "webhook.list", {}, {})

    def get(self, id: str) -> types.Webhook:
        """webhook.get. Raises NotFound."""
        return self._client.record(types.Webhook, "webhook.get", {"webhook": id}, {})

    def update(self, id: str, **fields: Unpack[opt.WebhookUpdateOptions]) -> types.Webhook:
        """webhook.update"""
        return self._client.record(types.Webhook, "webhook.update", {"webhook": id}, fields)

    def remove(self, id: str) -> None:
        """webhook.remove. Raises NotFound."""
        self._client.ask("webhook.remove", {"webhook": id}, {})

    def test(self, id: str) -> types.WebhookTest:
        """webhook.test: sends it something now; how that went."""
        return self._client.record(types.WebhookTest, "webhook.test", {"webhook": id}, {})


class Tiers(_AsyncNoun):
    """How far the agents of groups are trusted."""

    def list(self) -> Iterator[types.Tier]:
        """tier.list"""
        return self._client.records(types.Tier, "tier.list", {}, {})

    def set(self, tier: str, **matrix: Unpack[opt.TierSetOptions]) -> types.Tier:
        """tier.set: makes it, or changes it whole. Raises Conflict for one that is built in."""
        return self._client.record(types.Tier, "tier.set", {"tier": tier}, matrix)

    def remove(self, tier: str) -> None:
        """tier.remove. Raises Conflict while groups are of it."""
        self._client.ask("tier.remove", {"tier": tier}, {})


class Chats(_AsyncNoun):
    """Where messages to groups come in, and answers go out."""

    def create(self, name: str, **options: Unpack[opt.ChatCreateOptions]) -> types.Chat:
        """chat.create. Raises Conflict, NotFound."""
        return self._client.record(types.Chat, "chat.create", {}, {"name": name, **options})

    def list(self) -> Iterator[types.Chat]:
        """chat.list"""
        return self._client.records(types.Chat, "chat.list", {}, {})

    def update(self, chat: str, **fields: Unpack[opt.ChatUpdateOptions]) -> types.Chat:
        """chat.update: what is named, for messages that come later. Raises NotFound."""
        return self._client.record(types.Chat, "chat.update", {"chat": chat}, fields)

    def remove(self, chat: str) -> None:
        """chat.remove: with all that was said in it, and its session. Raises Conflict while a run of it is on its way."""
        self._client.ask("chat.remove", {"chat": chat}, {})

    def reset(self, chat: str) -> None:
        """chat.reset: its next run begins a new conversation. Raises Conflict while a run of it is on its way."""
        self._client.ask("chat.reset", {"chat": chat}, {})

    def message(
        self, chat: str, text: str, **options: Unpack[opt.ChatMessageOptions]
    ) -> types.ChatMessageTaken:
        """chat.message: brings one in. With an ``id`` it may be sent again."""
        asked: Dict[str, Any] = {"text": text, **options}
        return self._client.record(types.ChatMessageTaken, "chat.message", {"chat": chat}, asked)

    def read(self, chat: str, **filters: Unpack[opt.ChatReadOptions]) -> Iterator[types.ChatSaid]:
        """chat.read: what agents have said, oldest first."""
        return self._client.records(types.ChatSaid, "chat.read", {"chat": chat}, filters)

    def follow(self, chat: str, after: Optional[int] = None) -> Generator[types.ChatSaid, None, None]:
        """chat.read: each as it is said, none twice or lost where the connection breaks; behind the number ``after``, else from now on. Without end. Raises NotFound, also when the chat is removed."""
        place = None if after is None else str(after)
        for name, data in follow_events(self._client, "chat.read", {"chat": chat}, {"follow": "true"}, place):
            if name == "said":
                yield read(types.ChatSaid, data)


class Schedules(_AsyncNoun):
    """Prompts that come to chats by cron, at intervals, or once."""

    def create(
        self, chat: str, name: str, text: str, **options: Unpack[opt.ScheduleCreateOptions]
    ) -> types.Schedule:
        """schedule.create. Raises Conflict, NotFound, and for what has no time to come."""
        asked: Dict[str, Any] = {"chat": chat, "name": name, "text": text, **options}
        return self._client.record(types.Schedule, "schedule.create", {}, asked)

    def list(self, **filters: Unpack[opt.ScheduleListOptions]) -> Iterator[types.Schedule]:
        """schedule.list: by chat and name."""
        return self._client.records(types.Schedule, "schedule.list", {}, filters)

    def get(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.get. Raises NotFound."""
        named = {"chat": chat, "schedule": schedule}
        return self._client.record(types.Schedule, "schedule.get", named, {})

    def pause(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.update: what passes meanwhile is not missed."""
        return self._update(chat, schedule, True)

    def resume(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.update: it goes on with the next time that comes."""
        return self._update(chat, schedule, False)

    def remove(self, chat: str, schedule: str) -> None:
        """schedule.remove: with its history; a run that it has started goes on."""
        self._client.ask("schedule.remove", {"chat": chat, "schedule": schedule}, {})

    def runs(
        self, chat: str, schedule: str, **filters: Unpack[opt.ScheduleRunsOptions]
    ) -> Iterator[types.ScheduleRun]:
        """schedule.runs: what became of its times, newest first."""
        named = {"chat": chat, "schedule": schedule}
        return self._client.records(types.ScheduleRun, "schedule.runs", named, filters)

    def _update(self, chat: str, schedule: str, paused: bool) -> types.Schedule:
        named = {"chat": chat, "schedule": schedule}
        return self._client.record(types.Schedule, "schedule.update", named, {"paused": paused})


class Groups(_AsyncNoun):
    """Agents that share a folder and a tier, their runs, and what they ask for."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.tiers = Tiers(client)
        self.chats = Chats(client)
        self.schedules = Schedules(client)

    def create(self, name: str, **options: Unpack[opt.GroupCreateOptions]) -> types.Group:
        """group.create. Raises Conflict, NotFound, Forbidden where the tier does not allow it."""
        return self._client.record(types.Group, "group.create", {}, {"name": name, **options})

    def list(self) -> Iterator[types.Group]:
        """group.list"""
        return self._client.records(types.Group, "group.list", {}, {})

    def get(self, group: str) -> types.Group:
        """group.get. Raises NotFound."""
        return self._client.record(types.Group, "group.get", {"group": group}, {})

    def update(self, group: str, **fields: Unpack[opt.GroupUpdateOptions]) -> types.Group:
        """group.update: what is named, a list as a whole. Raises NotFound, Forbidden where the tier does not allow it."""
        return self._client.record(types.Group, "group.update", {"group": group}, fields)

    def remove(self, group: str) -> None:
        """group.remove: with its chats and its folder. Raises Conflict while a run is on its way."""
        self._client.ask("group.remove", {"group": group}, {})

    def runs(self, group: str, **filters: Unpack[opt.GroupRunsOptions]) -> Iterator[types.GroupRun]:
        """group.runs: newest first."""
        return self._client.records(types.GroupRun, "group.runs", {"group": group}, filters)

    def actions(self, **filters: Unpack[opt.GroupActionsOptions]) -> Iterator[types.GroupAction]:
        """group.actions: newest first; ``state="held"`` is what waits for a person."""
        return self._client.records(types.GroupAction, "group.actions", {}, filters)

    def decide(
        self, number: int, decision: Literal["allow", "deny"], **options: Unpack[opt.GroupDecideOptions]
    ) -> types.GroupAction:
        """group.decide. Raises Conflict where it does not wait."""
        asked: Dict[str, Any] = {"decision": decision, **options}
        return self._client.record(types.GroupAction, "group.decide", {"number": number}, asked)


def _all(cls: Type[_R], answer: object) -> list[_R]:
    found: list[_R] = array(reading(cls))(answer, "the answer")
    return found
