"""Files: in, out, found, watched, and whole directories both ways."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
import threading
import unittest
from typing import Iterator

from squash import AsyncSquash, BadRequest, Conflict, LimitReached, NotFound, ProtocolError, Sandbox, Squash

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

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.local = pathlib.Path(temporary.name)

    def test_files_are_written_read_changed_and_removed(self) -> None:
        files = self.box.files
        made = files.write("/root/a/b.txt", "grüße", parents=True, mode="600")
        self.assertEqual((made.size, made.mode), (7, "0600"))
        self.assertEqual(files.read_text("/root/a/b.txt"), "grüße")
        self.assertEqual(files.read("/root/a/b.txt", range=(1, 2)), b"r")
        files.write("/root/a/b.txt", io.BytesIO(b"!" * 600_000), append=True)
        self.assertEqual(files.stat("/root/a/b.txt").size, 600_007)
        pieces: Iterator[bytes] = (b"x" * 100_000 for _ in range(30))
        self.assertEqual(files.write("/root/a/c", pieces).size, 3_000_000)
        with self.assertRaises(Conflict) as stale:
            files.write("/root/a/c", b"", if_none_match="*")
        self.assertEqual(stale.exception.code, "precondition_failed")
        self.assertEqual(files.change("/root/a/c", mode="640").mode, "0640")
        files.copy("/root/a", "/root/d", recursive=True)
        files.move("/root/d/c", "/root/d/e")
        files.link("/root/d/l", "e")
        files.make_directory("/root/d/f")
        self.assertEqual([each.path for each in files.list("/root/d", limit=2)], ["b.txt", "e", "f", "l"])
        self.assertEqual([each.path for each in files.glob("/root", "**/*.txt")], ["a/b.txt", "d/b.txt"])
        found = files.search("/root/d", "grü")
        self.assertEqual(([each.line for each in found.items], found.truncated), ([1], False))
        files.remove("/root/d", recursive=True)
        with self.assertRaises(NotFound):
            files.read("/root/d/b.txt")
        with self.assertRaises(BadRequest):
            files.write("/root/a/c", io.StringIO("text"))  # type: ignore[arg-type]

    def test_a_name_that_is_no_text_comes_and_goes_as_bytes(self) -> None:
        self.box.files.write(b"/root/\xff", b"1")
        self.assertEqual(self.box.files.read(b"/root/\xff"), b"1")
        self.assertEqual(self.box.files.read(os.fsdecode(b"/root/\xff")), b"1")

    def test_what_is_large_is_read_in_bounds(self) -> None:
        self.box.exec("head -c 5000000 /dev/zero > /root/large").check()
        target = self.local / "large"
        target.write_text("before")
        with self.assertRaises(NotFound):
            self.box.snapshots.download("none", target)
        self.assertEqual((os.listdir(self.local), target.read_text()), (["large"], "before"))
        with self.assertRaises(ProtocolError) as long:
            self.box.files.read("/root/large", bytes_max=1_000_000)
        self.assertEqual(long.exception.code, "too_long")
        self.assertEqual(sum(map(len, self.box.files.read_parts("/root/large", range=(1, None)))), 4_999_999)
        self.assertTrue(self.box.files.exists("/root/large") and not self.box.files.exists("/root/small"))

    def test_a_refused_upload_says_why_before_its_end(self) -> None:
        def endless() -> Iterator[bytes]:
            while True:
                yield bytes(100_000)

        with self.assertRaises(NotFound):
            self.box.files.write("/no/such/place", endless())
        self.assertEqual(self.box.exec("echo on").stdout, "on\n")

    def test_a_directory_goes_up_and_comes_down_as_it_was(self) -> None:
        tree = self.local / "tree"
        deep = tree / ("d" * 90) / ("e" * 90)
        deep.mkdir(parents=True)
        (deep / ("f" * 90 + "ü")).write_bytes(b"deep" * 100_000)
        (tree / "run").write_text("#!/bin/sh\n")
        (tree / "run").chmod(0o755)
        (tree / "link").symlink_to("run")
        (tree / "empty").mkdir(mode=0o500)
        with open(os.path.join(os.fsencode(tree), b"\xfe"), "wb"):
            pass
        self.box.files.upload_directory(tree, "/root/up/here")
        self.assertEqual(self.box.exec("cd /root/up/here && ls -l run | cut -c1-10 && readlink link").stdout, "-rwxr-xr-x\nrun\n")
        back = self.local / "back"
        self.assertEqual(self.box.files.download_directory("/root/up/here", back), 7)
        self.assertEqual(_tree(back), _tree(tree))
        with self.assertRaises(Conflict):
            self.box.files.download_directory("/root/up", back)
        with self.assertRaises(LimitReached):
            self.box.files.download_directory("/root/up", self.local / "small", bytes_max=100_000)
        self.assertEqual(sorted(os.listdir(self.local)), ["back", "tree"])
        (tree / "empty").chmod(0o700)

    def test_changes_are_told_as_they_happen(self) -> None:
        self.box.files.make_directory("/root/watched")
        seen = []
        for change in self.box.files.watch("/root/watched"):
            if change.type == "watching":
                threading.Thread(target=lambda: self.box.exec("touch /root/watched/new && rm -r /root/watched")).start()
            elif change.type == "change":
                seen.append((change.change, change.path))
        self.assertEqual(seen[0], ("created", "new"))


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_files_and_directories_go_both_ways(self) -> None:
        async with AsyncSquash() as squash, await squash.sandboxes.create(from_=LAYERS) as box:
            with tempfile.TemporaryDirectory() as folder:
                tree = pathlib.Path(folder, "tree")
                tree.mkdir()
                for number in range(50):
                    (tree / f"{number}").write_bytes(os.urandom(number * 1_000))
                await box.files.upload_directory(tree, "/root/up")
                await box.files.download_directory("/root/up", pathlib.Path(folder, "back"))
                self.assertEqual(_tree(pathlib.Path(folder, "back")), _tree(tree))
                self.assertEqual(sum([len(piece) async for piece in box.files.read_parts("/root/up/49")]), 49_000)
            with self.assertRaises(BadRequest):
                await box.files.upload_directory("/etc/hostname", "/root/odd")


def _tree(top: pathlib.Path) -> object:
    return sorted(
        (os.fsencode(path.relative_to(top)), os.readlink(path) if path.is_symlink() else (path.stat().st_mode, path.is_file() and path.read_bytes()))
        for path in top.rglob("*")
    )
