"""Contexts: state between cells, results, errors, interrupts, streams. Only where the daemon has the layer `interpreter`."""

from __future__ import annotations

import os
import threading
import unittest
from typing import TYPE_CHECKING

from squash import AsyncSquash, CommandFailed, NotFound, Sandbox, Squash
if TYPE_CHECKING:
    from squash.options import SandboxCreateFromLayers

LAYERS: SandboxCreateFromLayers = {"layers": ["000-base-debian", "120-interpreter"]}


@unittest.skipUnless(os.environ.get("SQUASH_TEST_INTERPRETER"), "the daemon has no interpreter")
class Sync(unittest.TestCase):
    squash: Squash
    box: Sandbox

    @classmethod
    def setUpClass(cls) -> None:
        cls.squash = Squash()
        cls.box = cls.squash.sandboxes.create(from_=LAYERS)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.box.remove()
        cls.squash.close()

    def test_cells_keep_state_and_answer_values_errors_and_pictures(self) -> None:
        box = self.box
        box.run_code("x = 20").check()
        done = box.run_code("print('said'); x + 1").check()
        self.assertEqual((done.text, done.stdout), ("21", "said\n"))
        failed = box.run_code("1 / 0")
        assert failed.error is not None
        self.assertEqual((failed.status, failed.error.name), ("error", "ZeroDivisionError"))
        with self.assertRaises(CommandFailed):
            failed.check()
        plot = box.run_code("import matplotlib.pyplot as plt; plt.plot([1, 3, 2]); plt.show()").check().png
        assert plot is not None
        self.assertEqual(plot[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(box.run_code("const n: number = 6; n * 7", language="typescript").check().text, "42")

    def test_a_context_of_its_own_streams_is_interrupted_and_begins_anew(self) -> None:
        context = self.box.contexts.create("python", context="analysis", cwd="/root")
        kinds = []
        for event in context.stream("print('one'); 2"):
            kinds.append(event.type)
            if event.type == "result":
                self.assertEqual(event.text, "2")
            elif event.type == "cell":
                number = event.cell
        self.assertEqual((kinds[0], kinds[-1]), ("cell", "end"))
        self.assertEqual([event.type for event in context.output(number)], kinds)
        timer = threading.Timer(0.5, context.interrupt)
        timer.start()
        self.assertEqual(context.run("import time; time.sleep(30)").status, "interrupted")
        timer.join()
        context.run("kept = 1").check()
        context.restart()
        self.assertEqual(context.run("kept").status, "error")
        self.assertIn("analysis", [each.name for each in self.box.contexts.list()])
        self.assertEqual(self.box.contexts.get("analysis").info.cwd, "/root")
        context.remove()
        with self.assertRaises(NotFound):
            self.box.contexts.get("nothing")


@unittest.skipUnless(os.environ.get("SQUASH_TEST_INTERPRETER"), "the daemon has no interpreter")
class Async(unittest.IsolatedAsyncioTestCase):
    async def test_cells_run_and_stream(self) -> None:
        async with AsyncSquash() as squash, await squash.sandboxes.create(from_=LAYERS) as box:
            self.assertEqual((await box.run_code("6 * 7")).check().text, "42")
            context = await box.contexts.get("default-python")
            self.assertEqual([event.type async for event in context.stream("8")], ["cell", "result", "end"])
