"""Ports, network, snapshots, volumes and what belongs to the daemon."""

from __future__ import annotations

import os
import tempfile
import unittest
from typing import TYPE_CHECKING

from squash import AsyncSquash, BadRequest, Conflict, NotFound, Squash, Unauthorized, types

from . import LAYERS, MODULES, ON_VMS

if TYPE_CHECKING:
    from squash.options import ModuleDescribeOptions, TierSetMessage


class Sync(unittest.TestCase):
    def setUp(self) -> None:
        self.squash = Squash()
        self.addCleanup(self.squash.close)

    def test_ports_and_the_network(self) -> None:
        with self.squash.sandboxes.create(from_=LAYERS, policy={"allow": ["example.com"]}) as box:
            box.start(["httpd", "-f", "-p", "3000"])
            self.assertEqual(box.ports.wait(3000).port, 3000)
            self.assertEqual([each.port for each in box.ports.list()], [3000])
            self.assertEqual(box.ports.set(3000, "public").access, "public")
            self.assertTrue(box.ports.url(3000, expires_s=60).token)
            self.assertEqual(box.network.policy().policy.allow, ["example.com"])
            rule: types.PolicyRule | str = box.network.set_policy(
                allow=[{"to": "api.example.com", "methods": ["GET"]}]
            ).policy.allow[0]
            assert isinstance(rule, types.PolicyRule)
            self.assertEqual((rule.to, rule.methods), (["api.example.com"], ["GET"]))
            self.assertFalse(box.network.test("other.example.com").allowed)
            self.assertIsInstance(box.network.learn(), types.PolicyLearnAnswer)
            box.exec("nslookup other.example.com", timeout_ms=5_000)
            for decision in box.network.follow_decisions(after=0):
                self.assertEqual(decision.verdict, "denied")
                break
            self.assertEqual({each.host for each in box.network.decisions(verdict="denied").decisions}, {"other.example.com"})

    def test_snapshots_are_taken_compared_restored_and_moved(self) -> None:
        with self.squash.sandboxes.create(from_=LAYERS) as box, tempfile.TemporaryDirectory() as folder:
            box.files.write("/root/state", "one")
            self.assertGreater(box.snapshot("first", labels={"good": "yes"}).size_bytes, 0)
            box.files.write("/root/state", "two")
            changed = [(each.change, each.path) for each in box.snapshots.diff("first", against="current")]
            self.assertIn(("changed", "/root/state"), changed)
            box.restore("first")
            self.assertEqual(box.files.read_text("/root/state"), "one")
            path = os.path.join(folder, "snapshot.squashfs")
            box.snapshots.download("first", path)
            with open(path, "rb") as file:
                box.snapshots.upload("second", file)
            self.assertEqual(box.snapshots.update("second", label="third").label, "third")
            self.assertEqual(sorted(each.label for each in box.snapshots.list()), ["first", "third"])
            box.snapshots.remove("third")
            with self.assertRaises(NotFound):
                box.snapshots.get("third")
            with self.assertRaises(BadRequest) as bad:
                box.snapshots.upload("bad", b"no squashfs")
            self.assertEqual(bad.exception.code, "snapshot_invalid")

    def test_volumes_outlive_sandboxes(self) -> None:
        self.squash.volumes.create("kept")
        for expected in ("", "once\n"):
            with self.squash.sandboxes.create(from_=LAYERS) as box:
                if ON_VMS:
                    box.pause(keep="files")
                mount = box.mounts.attach("/mnt", volume="kept")
                if ON_VMS:
                    box.resume()
                self.assertEqual([each.path for each in box.mounts.list()], ["/mnt"])
                self.assertEqual(box.exec("touch /mnt/a; cat /mnt/a; echo once > /mnt/a").stdout, expected)
                with self.assertRaises(Conflict):
                    self.squash.volumes.remove("kept")
                if ON_VMS:
                    box.pause(keep="files")
                box.mounts.detach(mount)
        self.assertEqual(self.squash.volumes.get("kept").name, "kept")
        self.squash.volumes.remove("kept")

    def test_what_belongs_to_the_daemon(self) -> None:
        squash = self.squash
        self.assertEqual([each.name for each in squash.modules.list()], MODULES)
        base = squash.modules.get(MODULES[0])
        manifest: ModuleDescribeOptions = {
            "schema": 1,
            "name": base.name,
            "built_at": "2026-11-23T00:00:00Z",
            "builder": "make",
            "base": None,
            "packages": ["m=1"],
            "squashfs_sha256": base.sha256,
        }
        self.assertEqual(squash.modules.describe(base.name, manifest).packages, ["m=1"])
        self.assertEqual(squash.modules.verify(base.name).builder, "make")
        would = squash.modules.gc(dry_run=True)
        self.assertEqual((would.dry_run, squash.modules.gc().trees_removed), (True, would.trees_removed))
        with tempfile.TemporaryDirectory() as folder:
            squash.modules.download(base.name, os.path.join(folder, "base"))
            self.assertEqual(os.path.getsize(os.path.join(folder, "base")), base.size_bytes)
        squash.secrets.set("openai", value="sk-12345678", allowed_hosts=["api.openai.com"])
        self.assertEqual([each.name for each in squash.secrets.list()], ["openai"])
        squash.secrets.remove("openai")
        made = squash.keys.create("reader", owner="ada", scope="read")
        with Squash(url=squash.url, token=made.token) as reader:
            self.assertEqual(reader.keys.self().owner, "ada")
            with self.assertRaises(Unauthorized) as refused:
                reader.sandboxes.create(from_=LAYERS)
            self.assertEqual((refused.exception.code, refused.exception.status), ("forbidden", 403))
        self.assertEqual(squash.owners.set_quota("ada", sandboxes=2, cpu=None).quota.sandboxes, 2)
        squash.keys.remove(made.id)
        public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
        login = squash.ssh_keys.create("laptop", owner="ada", public_key=public)
        self.assertEqual([each.id for each in squash.ssh_keys.list(owner="ada")], [login.id])
        self.assertEqual(squash.ssh_keys.get(login.id).fingerprint, login.fingerprint)
        squash.ssh_keys.remove(login.id)
        self.assertEqual((list(squash.approvals.list()), squash.approvals.standing.list()), ([], []))
        hook = squash.webhooks.create("https://hooks.example.com/x", types=["sandbox.failed"])
        self.assertFalse(squash.webhooks.update(hook.id, enabled=False).enabled)
        squash.webhooks.remove(hook.id)
        self.assertIn("key.create", [each.operation for each in squash.audit(operation="key.create")])
        self.assertIn("pypi", [each.name for each in squash.presets()])
        self.assertEqual(squash.check_mount("/srv", tier="main").reason, "not_allowed")
        self.assertTrue(squash.ticket("/v1/events").ticket)

    def test_groups_are_spoken_to(self) -> None:
        groups = self.squash.groups
        self.assertIn("untrusted", [each.name for each in groups.tiers.list()])
        row: TierSetMessage = {"own": "allow", "others": "deny"}
        groups.tiers.set(
            "quiet", message=row, start=row, read=row, create="deny", create_tiers=[], reach=[], secrets=[]
        )
        groups.create("py", tier="quiet", command=["/bin/echo", "hi"])
        groups.chats.create("py-chat", group="py", trigger="@py")
        taken = groups.chats.message("py-chat", "hello", sender="ada")
        self.assertEqual((taken.verdict, taken.run), ("context", None))
        self.assertEqual([each.waiting for each in groups.chats.list()], [1])
        self.assertEqual((list(groups.runs("py")), list(groups.actions(state="held"))), ([], []))
        self.assertEqual(list(groups.chats.read("py-chat")), [])
        made = groups.schedules.create("py-chat", "hourly", "hello", every_s=3600, missed="skip")
        self.assertEqual((made.every_s, made.state), (3600, "active"))
        self.assertEqual(groups.schedules.pause("py-chat", "hourly").state, "paused")
        self.assertEqual(groups.schedules.resume("py-chat", "hourly").state, "active")
        self.assertEqual([each.name for each in groups.schedules.list(group="py")], ["hourly"])
        self.assertEqual(list(groups.schedules.runs("py-chat", "hourly")), [])
        groups.schedules.remove("py-chat", "hourly")
        with self.assertRaises(NotFound):
            groups.schedules.get("py-chat", "hourly")
        with self.assertRaises(NotFound):
            groups.decide(1, "deny", reason="none")
        with self.assertRaises(Conflict):
            groups.tiers.remove("quiet")
        self.assertEqual(groups.get("py").tier, [each for each in groups.list()][0].tier)
        groups.chats.reset("py-chat")
        self.assertIsNone([each.session for each in groups.chats.list()][0])
        groups.chats.remove("py-chat")
        groups.remove("py")
        groups.tiers.remove("quiet")

    def test_events_are_followed(self) -> None:
        with self.squash.sandboxes.create(from_=LAYERS) as box:
            pass
        followed = self.squash.events(after=0, sandbox=box.id, type="sandbox.created,sandbox.destroyed")
        first = next(followed)
        assert first.type != "gap"
        self.assertEqual((first.type, next(followed).type), ("sandbox.created", "sandbox.destroyed"))
        followed.close()
        behind = self.squash.events(after=first.id, sandbox=box.id)
        self.assertEqual(next(behind).type, "sandbox.destroyed")
        behind.close()


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_what_belongs_to_the_daemon(self) -> None:
        async with AsyncSquash() as squash, await squash.sandboxes.create(from_=LAYERS) as box:
            self.assertEqual([each.name async for each in squash.modules.list()], MODULES)
            await box.snapshot("one")
            self.assertEqual([each.label async for each in box.snapshots.list()], ["one"])
            async for event in squash.events(after=0):
                self.assertEqual(event.type, "sandbox.created")
                break
