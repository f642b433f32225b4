"""Sandboxes and commands, with and without await."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
import unittest

from squash import (
    AsyncSandbox,
    AsyncSquash,
    BadRequest,
    CommandFailed,
    NotFound,
    Sandbox,
    Squash,
    SquashError,
    types,
)

from . import LAYERS


class Sync(unittest.TestCase):
    def test_a_box_is_made_used_and_removed_at_the_end(self) -> None:
        with Sandbox.create(from_=LAYERS, name="python", labels={"made": "here"}) as box:
            self.assertEqual((box.info.state, box.info.name, box.info.layers), ("ready", "python", ["000-base-test"]))
            result = box.exec("echo out; echo err >&2; exit 3", env={"A": "b"})
            self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 3))
            with self.assertRaises(CommandFailed) as failed:
                result.check()
            self.assertIs(failed.exception.result, result)
            self.assertIn("exit code 3: err", str(failed.exception))
            self.assertEqual(box.exec(["printf", "%s", "$HOME ü"]).check().stdout, "$HOME ü")
            binary = box.exec("cat", stdin_base64="/wA=", encoding="base64")
            self.assertEqual(binary.stdout_data, b"\xff\0")
            self.assertTrue(box.exec("sleep 9", timeout_ms=100).timed_out)
            self.assertEqual(box.update(labels={"made": None, "more": "x"}).labels, {"more": "x"})
            self.assertEqual(box.pause().state, "paused")
            self.assertEqual(box.resume().state, "ready")
            self.assertIn(box.id, [each.id for each in Sandbox.list(label="more=x")])
            with box.fork() as fork:
                self.assertNotEqual(fork.id, box.id)
            self.assertGreater(box.usage().pids_limit, 0)
            with Sandbox.get(box.id) as same:
                self.assertEqual(same.id, box.id)
            # `get` removes nothing.
            self.assertEqual(box.refresh().state, "ready")
        with self.assertRaises(NotFound) as gone:
            Sandbox.get(box.id)
        self.assertEqual((gone.exception.code, gone.exception.status), ("sandbox_not_found", 404))
        self.assertEqual(gone.exception.request, f"GET /v1/sandboxes/{box.id}")

    def test_what_is_kept_stays(self) -> None:
        with Squash() as squash, squash.sandboxes.create(from_=LAYERS) as box:
            box.keep()
        Sandbox.get(box.id).remove()

    def test_an_error_inside_is_what_is_heard_and_the_box_is_gone(self) -> None:
        with self.assertRaises(ZeroDivisionError), Sandbox.create(from_=LAYERS) as box:
            _ = 1 // 0
        with self.assertRaises(NotFound):
            box.exec("true")

    def test_a_box_that_is_gone_already_ends_in_peace(self) -> None:
        with Sandbox.create(from_=LAYERS) as box:
            Sandbox.get(box.id).remove()

    def test_one_command_in_a_box_of_its_own(self) -> None:
        with Squash() as squash:
            result = squash.run(["sh", "-c", "echo $0 $A"], sandbox={"from": LAYERS}, env={"A": "1"})
            self.assertEqual(result.check().stdout, "sh 1\n")
            self.assertEqual(squash.info().api, 1)

    def test_lists_go_over_all_pages(self) -> None:
        with Squash() as squash:
            boxes = [squash.sandboxes.create(from_=LAYERS, labels={"page": "1"}) for _ in range(3)]
            found = [box.id for box in squash.sandboxes.list(label="page", limit=1)]
            for box in boxes:
                box.remove()
        self.assertEqual(sorted(found), sorted(box.id for box in boxes))

    def test_what_the_daemon_refuses_has_a_code_and_a_class(self) -> None:
        with self.assertRaises(BadRequest) as wrong:
            Sandbox.create(from_={"layers": 7})  # type: ignore[typeddict-item]
        self.assertEqual(wrong.exception.code, "invalid_request")
        self.assertIn("layers", wrong.exception.message)
        with self.assertRaises(BadRequest):
            Sandbox.create(nmae="typo")  # type: ignore[call-arg]
        with self.assertRaises(BadRequest):
            Sandbox.get("..")
        with self.assertRaises(SquashError):
            Sandbox.create(from_=LAYERS, cpu=float("nan"))
        again = pickle.loads(pickle.dumps(wrong.exception))
        self.assertEqual((type(again), again.code, str(again)), (BadRequest, "invalid_request", str(wrong.exception)))

    def test_records_are_read_and_not_written(self) -> None:
        with Squash() as squash:
            info = squash.info()
        with self.assertRaises(AttributeError):
            info.version = "2"  # type: ignore[misc]
        self.assertEqual(dataclasses.asdict(info)["version"], info.version)
        self.assertIsInstance(info.room.memory, types.DaemonInfoRoomMemory)


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_a_box_is_made_used_and_removed_at_the_end(self) -> None:
        async with await AsyncSandbox.create(from_=LAYERS) as box:
            results = await asyncio.gather(*(box.exec(f"echo {number}") for number in range(10)))
            self.assertEqual([result.stdout for result in results], [f"{number}\n" for number in range(10)])
            self.assertIn(box.id, [each.id async for each in AsyncSandbox.list()])
        async with AsyncSquash() as squash:
            with self.assertRaises(NotFound):
                await squash.sandboxes.get(box.id)

    async def test_a_command_that_nobody_waits_for_any_more_leaves_the_client_whole(self) -> None:
        async with AsyncSquash() as squash, await squash.sandboxes.create(from_=LAYERS) as box:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(box.exec("sleep 20; echo late"), 0.2)
            self.assertEqual((await box.exec("echo next")).stdout, "next\n")

    def test_one_client_serves_one_loop_after_the_other(self) -> None:
        squash = AsyncSquash()

        async def version() -> str:
            async with squash:
                return (await squash.info()).version

        self.assertEqual(asyncio.run(version()), asyncio.run(version()))


if __name__ == "__main__":
    unittest.main()
