"""Processes: output by position, input, waits, ends."""

from __future__ import annotations

import unittest

from squash import AsyncSquash, Conflict, Exit, Gap, NotFound, Output, Sandbox, Squash, TimedOut

from . import LAYERS


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

    def test_output_is_told_to_its_end_and_again_from_any_byte(self) -> None:
        process = self.box.start("printf 'a\\377ü'; printf err >&2; exit 4")
        events = list(process.output())
        written = b"".join(event.data for event in events if event.type == "output")
        self.assertEqual(sorted(written), sorted("ü".encode() + b"a\xfferr"))
        last = events[-1]
        assert last.type == "exit"
        self.assertEqual((last.process.exit_code, process.info.state), (4, "ended"))
        again = b"".join(event.data for event in process.output(from_=3) if event.type == "output")
        self.assertEqual(again, written[3:])
        only = b"".join(event.data for event in process.output(streams="stderr") if event.type == "output")
        self.assertEqual(only, b"err")
        result = process.result()
        self.assertEqual((result.exit_code, result.stderr, result.stdout), (4, "err", "a\ufffdü"))

    def test_input_lines_waits_and_signals(self) -> None:
        process = self.box.start(["sh", "-c", "echo ready; tr a-z A-Z; sleep 100"], stdin=True, tag="upper")
        self.assertEqual(process.wait(text="ready").line, "ready")
        self.assertEqual(process.write("größe\n"), 8)
        process.close_stdin()
        with self.assertRaises(Conflict) as closed:
            process.write(b"more")
        self.assertEqual(closed.exception.code, "stdin_closed")
        self.assertEqual(process.wait(pattern="GR*").line, "GRößE")
        with self.assertRaises(TimedOut) as late:
            process.wait(timeout_ms=50)
        self.assertEqual(late.exception.code, "wait_timeout")
        same = self.box.processes.get("upper")
        self.assertEqual(same.number, process.number)
        self.assertIn(process.number, [each.number for each in self.box.processes.list(state="running")])
        same.signal("TERM")
        self.assertEqual(process.wait().process.signal, 15)
        self.assertEqual(process.refresh().reason, "signaled")
        with self.assertRaises(NotFound):
            self.box.processes.get(99_999)

    def test_a_terminal_is_resized(self) -> None:
        process = self.box.start("read x; stty size", pty={"rows": 24, "columns": 80})
        process.resize(columns=101, rows=33)
        process.write("\n")
        self.assertIn("33 101", process.result().stdout)

    def test_a_flood_is_told_whole_to_a_reader_that_stalls_it(self) -> None:
        command = "echo; read go; yes 0123456789 | head -c 8999999"
        process = self.box.start(command, stdin=True, output_bytes_max=262_144)
        events: list[Output | Gap | Exit] = []
        for event in process.output(stall=True):
            if not events:
                process.write("\n")
            events.append(event)
        self.assertEqual([event for event in events if event.type == "gap"], [])
        self.assertEqual(sum(len(event.data) for event in events if event.type == "output"), 9_000_000)
        # What is kept is the end of it.
        late = list(process.output())
        assert late[0].type == "gap"
        kept = sum(len(event.data) for event in late if event.type == "output")
        self.assertEqual(late[0].bytes + kept, 9_000_000)
        self.assertTrue(process.result().truncated)

    def test_whoever_stops_listening_ends_nothing(self) -> None:
        process = self.box.start("while :; do echo tick; sleep 0.05; done")
        for event in process.output():
            if event.type == "output":
                break
        self.assertEqual(process.refresh().state, "running")
        process.signal(9)
        self.assertEqual(process.wait().process.exit_code, 137)


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_output_input_and_end(self) -> None:
        async with AsyncSquash() as squash, await squash.sandboxes.create(from_=LAYERS) as box:
            process = await box.start("read word; echo $word; exit 2", stdin=True)
            await process.write("hello\n")
            said = [event async for event in process.output()]
            self.assertEqual([event.type for event in said], ["output", "exit"])
            assert said[0].type == "output"
            self.assertEqual((said[0].text, (await process.result()).exit_code), ("hello\n", 2))
