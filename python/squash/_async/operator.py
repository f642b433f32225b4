"""What belongs to a daemon: modules, images, volumes, secrets, keys, owners, approvals, webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, Dict, Optional, Type, TypeVar

from .. import types
from .._commands import SLOW_S
from .._record import Record, array, read
from .._record import record as reading
from .._tar import LocalPath
from ..errors import SquashError
from .bodies import AsyncData, body_of, save
from .client import AsyncClient
from .exchange import pieces_of
from .following import follow_events

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from .. import options as opt

_R = TypeVar("_R", bound=Record)


class _AsyncNoun:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client


class AsyncModules(_AsyncNoun):
    """The layers that sandboxes are stacked from."""

    def list(self, **filters: Unpack[opt.ModuleListOptions]) -> AsyncIterator[types.Module]:
        """module.list"""
        return self._client.records(types.Module, "module.list", {}, filters)

    async def get(self, name: str) -> types.ModuleDetails:
        """module.get. Raises NotFound."""
        return await self._client.record(types.ModuleDetails, "module.get", {"name": name}, {})

    async def describe(self, name: str, manifest: opt.ModuleDescribeOptions) -> types.ModuleDetails:
        """module.describe: what it is made of, as who built it says. Raises NotFound, BadRequest where the manifest is of another file."""
        return await self._client.record(types.ModuleDetails, "module.describe", {"name": name}, manifest)

    async def verify(self, name: str) -> types.ModuleDetails:
        """module.verify: reads all of it again. Raises NotFound, SquashError (``layer_corrupt``) where it is not what its manifest says."""
        return await self._client.record(types.ModuleDetails, "module.verify", {"name": name}, {}, extra_s=SLOW_S)

    async def download(self, name: str, local: LocalPath) -> None:
        """module.download: a squashfs file, which takes the place of one that is there when all of it has come."""
        await save(self.download_parts(name), local)

    async def download_parts(self, name: str) -> AsyncGenerator[bytes, None]:
        """module.download: the same as it comes."""
        async for piece in pieces_of(await self._client.open("module.download", {"name": name}, {}, extra_s=SLOW_S)):
            yield piece

    async def import_(self, name: str, data: AsyncData, **options: Unpack[opt.ModuleImportOptions]) -> types.Module:
        """module.import: a squashfs file becomes a module. Raises Conflict, BadRequest (``module_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        answer = await self._client.upload("module.import", {"name": name}, options, body, headers=headers)
        return read(types.Module, answer)

    async def gc(self, *, dry_run: bool = False) -> types.GcAnswer:
        """module.gc: removes unpacked layers that no sandbox stands on; with ``dry_run`` it only tells which would go."""
        return await self._client.record(types.GcAnswer, "module.gc", {}, {"dry_run": dry_run}, extra_s=SLOW_S)

    async def remove(self, name: str) -> None:
        """module.remove. Raises NotFound, Conflict (``module_in_use``)."""
        await self._client.ask("module.remove", {"name": name}, {}, extra_s=SLOW_S)


class AsyncBucket(_AsyncNoun):
    """The bucket that the daemon keeps modules and snapshots in."""

    async def get(self) -> types.Bucket:
        """bucket.get. Raises NotFound where the daemon has none."""
        return await self._client.record(types.Bucket, "bucket.get", {}, {})

    async def list(self, prefix: str = "") -> types.BucketList:
        """bucket.list"""
        return await self._client.record(types.BucketList, "bucket.list", {}, {"prefix": prefix})

    async def push(self, wish: opt.BucketPushOptions) -> None:
        """bucket.push: returns when it is there. Raises NotFound, Conflict where the bucket has another one of its name."""
        await self._client.ask("bucket.push", {}, wish, extra_s=SLOW_S)

    async def pull(self, wish: opt.BucketPullOptions) -> None:
        """bucket.pull: returns when it is here. Raises NotFound."""
        await self._client.ask("bucket.pull", {}, wish, extra_s=SLOW_S)

    async def remove(self, key: str) -> None:
        """bucket.remove: an object by its key, for every machine."""
        await self._client.ask("bucket.remove", {}, {"key": key})


class AsyncImages(_AsyncNoun):
    """OCI images, which sandboxes are made from instead of modules."""

    def list(self, **filters: Unpack[opt.ImageListOptions]) -> AsyncIterator[types.Image]:
        """image.list"""
        return self._client.records(types.Image, "image.list", {}, filters)

    async def get(self, image: str) -> types.Image:
        """image.get. Raises NotFound."""
        return await self._client.record(types.Image, "image.get", {"image": image}, {})

    async def pull(self, reference: str, *, again: bool = False) -> types.Image:
        """image.pull: to its end, such as of ``python:3.12-slim``. Raises SquashError (``registry_denied``, ``image_unsupported``, …)."""
        return await pull_image(self._client, reference, again=again)

    async def import_(self, data: AsyncData, **options: Unpack[opt.ImageImportOptions]) -> types.Image:
        """image.import: a docker-archive or an OCI layout as a tar. Raises SquashError (``image_invalid``)."""
        headers = {"content-type": "application/octet-stream"}
        body = body_of(data)
        answer = await self._client.upload("image.import", {}, options, body, headers=headers)
        return read(types.Image, answer)

    async def commit(self, **options: Unpack[opt.ImageCommitOptions]) -> types.Image:
        """image.commit: an image of a sandbox, or of a snapshot of it. Raises NotFound."""
        return await self._client.record(types.Image, "image.commit", {}, options, extra_s=SLOW_S)

    async def push(self, image: str, *, destination: Optional[str] = None) -> types.ImagePush:
        """image.push: to its end; without a destination to where its name says. Raises NotFound, SquashError (``registry_denied``, …)."""
        asked = {} if destination is None else {"destination": destination}
        while True:
            push = await self._client.record(types.ImagePush, "image.push", {"image": image}, asked, extra_s=SLOW_S)
            if push.state == "ready":
                return push

    async def export(self, image: str, local: LocalPath) -> None:
        """image.export: one tar, an OCI layout and a docker-archive at once, as ``podman load`` and ``docker load`` read it."""
        await save(self.export_parts(image), local)

    async def export_parts(self, image: str) -> AsyncGenerator[bytes, None]:
        """image.export: the same as it comes."""
        async for piece in pieces_of(await self._client.open("image.export", {"image": image}, {}, extra_s=SLOW_S)):
            yield piece

    async def flatten(self, image: str, **options: Unpack[opt.ImageFlattenOptions]) -> types.ModuleDetails:
        """image.flatten: one module of all of it, such as ``300-tools``. Raises NotFound, Conflict."""
        asked = {"image": image}
        return await self._client.record(types.ModuleDetails, "image.flatten", asked, options, extra_s=SLOW_S)

    async def remove(self, image: str) -> None:
        """image.remove: sandboxes that were made from it keep what they need. Raises NotFound."""
        await self._client.ask("image.remove", {"image": image}, {}, extra_s=SLOW_S)


async def pull_image(client: AsyncClient, reference: str, *, again: bool = False) -> types.Image:
    """Asked again while it is under way, so that no request waits for a whole registry."""
    while True:
        asked = {"reference": reference, "again": again}
        pull = await client.record(types.ImagePull, "image.pull", {}, asked, extra_s=SLOW_S)
        if pull.image is not None:
            return pull.image
        again = False


async def have_image(client: AsyncClient, reference: str) -> None:
    """Before a create. Who may not pull gets what is here, as the create says."""
    try:
        await pull_image(client, reference)
    except SquashError as error:
        if error.code != "forbidden":
            raise


class AsyncVolumes(_AsyncNoun):
    """Directories that outlive sandboxes. They are named by name or id."""

    async def create(self, name: str, **options: Unpack[opt.VolumeCreateOptions]) -> types.VolumeInfo:
        """volume.create; with ``from_`` a copy. Raises Conflict, LimitReached."""
        asked: Dict[str, Any] = {"name": name, **options}
        return await self._client.record(types.VolumeInfo, "volume.create", {}, asked, extra_s=SLOW_S)

    def list(self, **filters: Unpack[opt.VolumeListOptions]) -> AsyncIterator[types.VolumeInfo]:
        """volume.list"""
        return self._client.records(types.VolumeInfo, "volume.list", {}, filters)

    async def get(self, volume: str) -> types.VolumeInfo:
        """volume.get. Raises NotFound."""
        return await self._client.record(types.VolumeInfo, "volume.get", {"volume": volume}, {})

    async def remove(self, volume: str) -> None:
        """volume.remove. Raises NotFound, Conflict (``volume_in_use``)."""
        await self._client.ask("volume.remove", {"volume": volume}, {}, extra_s=SLOW_S)

    async def snapshot(
        self, volume: str, name: str, **options: Unpack[opt.VolumeSnapshotOptions]
    ) -> types.VolumeInfo:
        """volume.snapshot: its files as they are, as a volume that nothing changes."""
        places = {"volume": volume}
        asked: Dict[str, Any] = {"name": name, **options}
        return await self._client.record(types.VolumeInfo, "volume.snapshot", places, asked, extra_s=SLOW_S)


class AsyncSecrets(_AsyncNoun):
    """Keys that sandboxes use and never see."""

    async def list(self) -> list[types.Secret]:
        """secret.list: without their values."""
        return _all(types.Secret, await self._client.ask("secret.list", {}, {}))

    async def set(self, name: str, **fields: Unpack[opt.SecretSetOptions]) -> types.Secret:
        """secret.set: makes it or changes it."""
        return await self._client.record(types.Secret, "secret.set", {"secret": name}, fields)

    async def remove(self, name: str) -> None:
        """secret.remove. Raises NotFound."""
        await self._client.ask("secret.remove", {"secret": name}, {})


class AsyncKeys(_AsyncNoun):
    """Who may ask, and for what."""

    async def create(self, name: str, **options: Unpack[opt.KeyCreateOptions]) -> types.KeyCreated:
        """key.create: the only answer that has its ``token``."""
        return await self._client.record(types.KeyCreated, "key.create", {}, {"name": name, **options})

    def list(self, **filters: Unpack[opt.KeyListOptions]) -> AsyncIterator[types.Key]:
        """key.list"""
        return self._client.records(types.Key, "key.list", {}, filters)

    async def self(self) -> types.KeySelf:
        """key.self: whose token this client has."""
        return await self._client.record(types.KeySelf, "key.self", {}, {})

    async def get(self, key: str) -> types.Key:
        """key.get. Raises NotFound."""
        return await self._client.record(types.Key, "key.get", {"key": key}, {})

    async def remove(self, key: str) -> None:
        """key.remove: it holds no more. Raises NotFound."""
        await self._client.ask("key.remove", {"key": key}, {})


class AsyncSshKeys(_AsyncNoun):
    """Public keys that log in over SSH, where the daemon has its gateway."""

    async def create(self, name: str, **options: Unpack[opt.SshKeyCreateOptions]) -> types.SshKey:
        """ssh_key.create: lets it log in, into its owner's sandboxes."""
        return await self._client.record(types.SshKey, "ssh_key.create", {}, {"name": name, **options})

    def list(self, **filters: Unpack[opt.SshKeyListOptions]) -> AsyncIterator[types.SshKey]:
        """ssh_key.list"""
        return self._client.records(types.SshKey, "ssh_key.list", {}, filters)

    async def get(self, key: str) -> types.SshKey:
        """ssh_key.get. Raises NotFound."""
        return await self._client.record(types.SshKey, "ssh_key.get", {"key": key}, {})

    async def remove(self, key: str) -> None:
        """ssh_key.remove: nobody logs in with it any more. Raises NotFound."""
        await self._client.ask("ssh_key.remove", {"key": key}, {})


class AsyncOwners(_AsyncNoun):
    """What everybody has, and may have."""

    def list(self, **filters: Unpack[opt.OwnerListOptions]) -> AsyncIterator[types.Owner]:
        """owner.list"""
        return self._client.records(types.Owner, "owner.list", {}, filters)

    async def quota(self, owner: str) -> types.Owner:
        """owner.quota: what it may have, and has."""
        return await self._client.record(types.Owner, "owner.quota", {"owner": owner}, {})

    async def set_quota(self, owner: str, **quota: Unpack[opt.OwnerSetQuotaOptions]) -> types.Owner:
        """owner.set_quota: None is no bound; what is left out stays."""
        return await self._client.record(types.Owner, "owner.set_quota", {"owner": owner}, quota)


class AsyncStandingApprovals(_AsyncNoun):
    """What was allowed for always."""

    async def list(self) -> list[types.StandingApproval]:
        """approval.standing_list"""
        return _all(types.StandingApproval, await self._client.ask("approval.standing_list", {}, {}))

    async def remove(self, id: int) -> None:
        """approval.standing_remove. Raises NotFound."""
        await self._client.ask("approval.standing_remove", {"standing": id}, {})


class AsyncApprovals(_AsyncNoun):
    """What waits for a person."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self.standing = AsyncStandingApprovals(client)

    def list(self, **filters: Unpack[opt.ApprovalListOptions]) -> AsyncIterator[types.Approval]:
        """approval.list"""
        return self._client.records(types.Approval, "approval.list", {}, filters)

    async def get(self, id: str) -> types.Approval:
        """approval.get. Raises NotFound."""
        return await self._client.record(types.Approval, "approval.get", {"approval": id}, {})

    async def decide(
        self, id: str, decision: Literal["allow", "deny"], **options: Unpack[opt.ApprovalDecideOptions]
    ) -> types.Approval:
        """approval.decide. Raises Conflict (``approval_expired``, ``approval_decided``)."""
        asked: Dict[str, Any] = {"decision": decision, **options}
        return await self._client.record(types.Approval, "approval.decide", {"approval": id}, asked)


class AsyncWebhooks(_AsyncNoun):
    """Events sent to an address, signed."""

    async def create(self, url: str, **options: Unpack[opt.WebhookCreateOptions]) -> types.WebhookMade:
        """webhook.create: the only answer that has its ``secret``."""
        return await self._client.record(types.WebhookMade, "webhook.create", {}, {"url": url, **options})

    def list(self) -> AsyncIterator[types.Webhook]:
        """webhook.list"""
        return self._client.records(types.Webhook, "webhook.list", {}, {})

    async def get(self, id: str) -> types.Webhook:
        """webhook.get. Raises NotFound."""
        return await self._client.record(types.Webhook, "webhook.get", {"webhook": id}, {})

    async def update(self, id: str, **fields: Unpack[opt.WebhookUpdateOptions]) -> types.Webhook:
        """webhook.update"""
        return await self._client.record(types.Webhook, "webhook.update", {"webhook": id}, fields)

    async def remove(self, id: str) -> None:
        """webhook.remove. Raises NotFound."""
        await self._client.ask("webhook.remove", {"webhook": id}, {})

    async def test(self, id: str) -> types.WebhookTest:
        """webhook.test: sends it something now; how that went."""
        return await self._client.record(types.WebhookTest, "webhook.test", {"webhook": id}, {})


class AsyncTiers(_AsyncNoun):
    """How far the agents of groups are trusted."""

    def list(self) -> AsyncIterator[types.Tier]:
        """tier.list"""
        return self._client.records(types.Tier, "tier.list", {}, {})

    async def set(self, tier: str, **matrix: Unpack[opt.TierSetOptions]) -> types.Tier:
        """tier.set: makes it, or changes it whole. Raises Conflict for one that is built in."""
        return await self._client.record(types.Tier, "tier.set", {"tier": tier}, matrix)

    async def remove(self, tier: str) -> None:
        """tier.remove. Raises Conflict while groups are of it."""
        await self._client.ask("tier.remove", {"tier": tier}, {})


class AsyncChats(_AsyncNoun):
    """Where messages to groups come in, and answers go out."""

    async def create(self, name: str, **options: Unpack[opt.ChatCreateOptions]) -> types.Chat:
        """chat.create. Raises Conflict, NotFound."""
        return await self._client.record(types.Chat, "chat.create", {}, {"name": name, **options})

    def list(self) -> AsyncIterator[types.Chat]:
        """chat.list"""
        return self._client.records(types.Chat, "chat.list", {}, {})

    async def update(self, chat: str, **fields: Unpack[opt.ChatUpdateOptions]) -> types.Chat:
        """chat.update: what is named, for messages that come later. Raises NotFound."""
        return await self._client.record(types.Chat, "chat.update", {"chat": chat}, fields)

    async def remove(self, chat: str) -> None:
        """chat.remove: with all that was said in it, and its session. Raises Conflict while a run of it is on its way."""
        await self._client.ask("chat.remove", {"chat": chat}, {})

    async def reset(self, chat: str) -> None:
        """chat.reset: its next run begins a new conversation. Raises Conflict while a run of it is on its way."""
        await self._client.ask("chat.reset", {"chat": chat}, {})

    async def message(
        self, chat: str, text: str, **options: Unpack[opt.ChatMessageOptions]
    ) -> types.ChatMessageTaken:
        """chat.message: brings one in. With an ``id`` it may be sent again."""
        asked: Dict[str, Any] = {"text": text, **options}
        return await self._client.record(types.ChatMessageTaken, "chat.message", {"chat": chat}, asked)

    def read(self, chat: str, **filters: Unpack[opt.ChatReadOptions]) -> AsyncIterator[types.ChatSaid]:
        """chat.read: what agents have said, oldest first."""
        return self._client.records(types.ChatSaid, "chat.read", {"chat": chat}, filters)

    async def follow(self, chat: str, after: Optional[int] = None) -> AsyncGenerator[types.ChatSaid, None]:
        """chat.read: each as it is said, none twice or lost where the connection breaks; behind the number ``after``, else from now on. Without end. Raises NotFound, also when the chat is removed."""
        place = None if after is None else str(after)
        async for name, data in follow_events(self._client, "chat.read", {"chat": chat}, {"follow": "true"}, place):
            if name == "said":
                yield read(types.ChatSaid, data)


class AsyncSchedules(_AsyncNoun):
    """Prompts that come to chats by cron, at intervals, or once."""

    async def create(
        self, chat: str, name: str, text: str, **options: Unpack[opt.ScheduleCreateOptions]
    ) -> types.Schedule:
        """schedule.create. Raises Conflict, NotFound, and for what has no time to come."""
        asked: Dict[str, Any] = {"chat": chat, "name": name, "text": text, **options}
        return await self._client.record(types.Schedule, "schedule.create", {}, asked)

    def list(self, **filters: Unpack[opt.ScheduleListOptions]) -> AsyncIterator[types.Schedule]:
        """schedule.list: by chat and name."""
        return self._client.records(types.Schedule, "schedule.list", {}, filters)

    async def get(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.get. Raises NotFound."""
        named = {"chat": chat, "schedule": schedule}
        return await self._client.record(types.Schedule, "schedule.get", named, {})

    async def pause(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.update: what passes meanwhile is not missed."""
        return await self._update(chat, schedule, True)

    async def resume(self, chat: str, schedule: str) -> types.Schedule:
        """schedule.update: it goes on with the next time that comes."""
        return await self._update(chat, schedule, False)

    async def remove(self, chat: str, schedule: str) -> None:
        """schedule.remove: with its history; a run that it has started goes on."""
        await self._client.ask("schedule.remove", {"chat": chat, "schedule": schedule}, {})

    def runs(
        self, chat: str, schedule: str, **filters: Unpack[opt.ScheduleRunsOptions]
    ) -> AsyncIterator[types.ScheduleRun]:
        """schedule.runs: what became of its times, newest first."""
        named = {"chat": chat, "schedule": schedule}
        return self._client.records(types.ScheduleRun, "schedule.runs", named, filters)

    async def _update(self, chat: str, schedule: str, paused: bool) -> types.Schedule:
        named = {"chat": chat, "schedule": schedule}
        return await self._client.record(types.Schedule, "schedule.update", named, {"paused": paused})


class AsyncGroups(_AsyncNoun):
    """Agents that share a folder and a tier, their runs, and what they ask for."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self.tiers = AsyncTiers(client)
        self.chats = AsyncChats(client)
        self.schedules = AsyncSchedules(client)

    async def create(self, name: str, **options: Unpack[opt.GroupCreateOptions]) -> types.Group:
        """group.create. Raises Conflict, NotFound, Forbidden where the tier does not allow it."""
        return await self._client.record(types.Group, "group.create", {}, {"name": name, **options})

    def list(self) -> AsyncIterator[types.Group]:
        """group.list"""
        return self._client.records(types.Group, "group.list", {}, {})

    async def get(self, group: str) -> types.Group:
        """group.get. Raises NotFound."""
        return await self._client.record(types.Group, "group.get", {"group": group}, {})

    async def update(self, group: str, **fields: Unpack[opt.GroupUpdateOptions]) -> types.Group:
        """group.update: what is named, a list as a whole. Raises NotFound, Forbidden where the tier does not allow it."""
        return await self._client.record(types.Group, "group.update", {"group": group}, fields)

    async def remove(self, group: str) -> None:
        """group.remove: with its chats and its folder. Raises Conflict while a run is on its way."""
        await self._client.ask("group.remove", {"group": group}, {})

    def runs(self, group: str, **filters: Unpack[opt.GroupRunsOptions]) -> AsyncIterator[types.GroupRun]:
        """group.runs: newest first."""
        return self._client.records(types.GroupRun, "group.runs", {"group": group}, filters)

    def actions(self, **filters: Unpack[opt.GroupActionsOptions]) -> AsyncIterator[types.GroupAction]:
        """group.actions: newest first; ``state="held"`` is what waits for a person."""
        return self._client.records(types.GroupAction, "group.actions", {}, filters)

    async def decide(
        self, number: int, decision: Literal["allow", "deny"], **options: Unpack[opt.GroupDecideOptions]
    ) -> types.GroupAction:
        """group.decide. Raises Conflict where it does not wait."""
        asked: Dict[str, Any] = {"decision": decision, **options}
        return await self._client.record(types.GroupAction, "group.decide", {"number": number}, asked)


def _all(cls: Type[_R], answer: object) -> list[_R]:
    found: list[_R] = array(reading(cls))(answer, "the answer")
    return found
