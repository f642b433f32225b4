"""A server that lies, stalls or goes away, and an older daemon: a clear error, no hang, nothing half-written."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pathlib
import pickle
import re
import shutil
import socket
import ssl
import tarfile
import tempfile
import threading
import time
import unittest
from typing import Callable, List, Optional, Tuple, Union

from squash import AsyncSquash, NotFound, ProtocolError, Squash, SquashError, Unauthorized, Unreachable, types
from squash._record import read
from squash._tar import packed, unpack

INFO = json.dumps({"version": "0.0.1"})
BOX = {"id": "box", "state": "ready", "named_by_a_newer_daemon": 1}
PROCESS = {"process": 1, "tag": None, "state": "running"}


def answer(body: Union[str, bytes], status: int = 200, kind: str = "application/json") -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, kind.encode(), len(data), data)


class Server:
    """Answers each request with the next of its answers, the last one again and again; None is silence. Then it closes."""

    def __init__(self, *answers: Optional[bytes], tls: Optional[ssl.SSLContext] = None) -> None:
        self._tls = tls
        self.requests: List[str] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: List[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            if self._tls is not None:
                try:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                except OSError:
                    continue
            data = b""
            while b"\r\n\r\n" not in data:
                piece = connection.recv(65_536)
                if not piece:
                    break
                data += piece
            self.requests.append(data.decode("latin-1"))
            said = self._answers[min(len(self.requests), len(self._answers)) - 1]
            self._open.append(connection)
            if said is not None:
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._open:
            connection.close()


class Strangers(unittest.TestCase):
    def error(self, *answers: Optional[bytes], timeout_ms: int = 5_000) -> Tuple[SquashError, Server]:
        """What `info` raises, the same with and without await."""
        found: List[SquashError] = []

        async def waiting(url: str) -> None:
            async with AsyncSquash(url=url, timeout_ms=timeout_ms) as squash:
                await squash.info()

        def asking(url: str) -> None:
            with Squash(url=url, timeout_ms=timeout_ms) as squash:
                squash.info()

        forms: List[Callable[[str], None]] = [asking, lambda url: asyncio.run(waiting(url))]
        for ask in forms:
            with Server(*answers) as server, self.assertRaises(SquashError) as failed:
                ask(server.url)
            found.append(failed.exception)
            found[-1].message = found[-1].message.replace(server.url, "URL")
        self.assertEqual((type(found[0]), str(found[0])), (type(found[1]), str(found[1])))
        self.assertEqual(found[0].request, "GET /v1/info")
        return found[0], server

    def test_what_is_no_daemon_is_said_to_be_none(self) -> None:
        for said, code in (
            (answer("<html>", kind="text/html"), "not_squash"),
            (answer("<html>", 404), "not_squash"),
            (answer("{}", 500), "not_squash"),
            (answer("[]"), "wrong_shape"),
            (answer('{"version":7}'), "wrong_shape"),
            (answer("[" * 100_000), "not_squash"),
            (b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n\r\n", "no_http"),
            (b"HTTP/1.1 200 X\r\n" + b"x: y\r\n" * 100_000, "no_http"),
            (b"HTTP/1.1 100 X\r\n\r\n" * 1_000, "no_http"),
            (b"HTTP/1.1 200 X\r\ncontent-length: -1\r\n\r\n", "no_http"),
            (b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n", "no_http"),
            (b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}xxxxx", "no_http"),
        ):
            with self.subTest(said[:60]):
                error, _ = self.error(said)
                self.assertIsInstance(error, ProtocolError)
                self.assertEqual(error.code, code)

    def test_silence_ends_and_is_not_asked_for_again(self) -> None:
        began = time.monotonic()
        error, server = self.error(None, timeout_ms=100)
        self.assertEqual((error.code, len(server.requests)), ("unreachable", 1))
        assert isinstance(error, Unreachable)
        self.assertEqual(error.how, "silent")
        self.assertIn("nothing for 0.1 s", error.message)
        self.assertLess(time.monotonic() - began, 2)

    def test_nobody_at_the_address_is_said_at_once(self) -> None:
        began = time.monotonic()
        for url in ("http://127.0.0.1:9", "unix:/no/such/socket", f"unix:/{'long/' * 40}socket"):
            with self.assertRaises(Unreachable) as failed:
                Squash(url=url).info()
            self.assertEqual(failed.exception.how, "not_there")
            self.assertIn("no daemon listens there", str(failed.exception))
            again = pickle.loads(pickle.dumps(failed.exception))
            self.assertEqual((again.how, str(again)), ("not_there", str(failed.exception)))
        self.assertLess(time.monotonic() - began, 1)

    def test_a_command_is_repeated_under_one_key_and_only_then(self) -> None:
        result = json.dumps({"exit_code": 0, "stdout": "once", "stderr": ""})
        with Server(answer(json.dumps(BOX)), b"", b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{", answer(result)) as server:
            with Squash(url=server.url) as squash:
                box = squash.sandboxes.get("box")
                self.assertEqual(box.exec("echo").stdout, "once")
        keys = [re.findall(r"idempotency-key: (\w{32})\r\n", request) for request in server.requests[1:]]
        self.assertEqual((len(keys), keys[0], keys[1]), (3, keys[1], keys[2]))
        with Server(answer(json.dumps(BOX)), b"") as server, Squash(url=server.url) as squash:
            with self.assertRaises(Unreachable):
                squash.sandboxes.get("box").update(name="new")
            self.assertEqual(len(server.requests), 2)
        gone = answer('{"code":"sandbox_not_found","detail":"gone"}', 404)
        with Server(answer(json.dumps(BOX)), b"", gone) as server, Squash(url=server.url) as squash:
            # What was removed when the connection broke is not there at the second time.
            squash.sandboxes.get("box").remove()
            with self.assertRaises(NotFound):
                squash.sandboxes.get("box").remove()

    def test_an_older_daemon_is_named_with_both_versions(self) -> None:
        missing = answer('{"code":"not_found","detail":"Nothing is served at this address"}', 404)
        with Server(answer(json.dumps(BOX)), missing, answer(INFO)) as server, Squash(url=server.url) as squash:
            with self.assertRaises(ProtocolError) as failed:
                squash.sandboxes.get("box").usage()
        self.assertEqual((failed.exception.code, failed.exception.status), ("daemon_outdated", 404))
        self.assertRegex(failed.exception.message, r"\(0\.0\.1\) has no operation sandbox\.usage, which this SDK \([\d.]+\)")

    def test_a_field_that_did_not_come_is_missed_where_it_is_read(self) -> None:
        with Server(answer(json.dumps(BOX))) as server, Squash(url=server.url) as squash:
            info = squash.sandboxes.get("box").info
        self.assertEqual((info.id, info.state), ("box", "ready"))
        with self.assertRaises(ProtocolError) as failed:
            _ = info.layers
        self.assertEqual(failed.exception.code, "daemon_outdated")
        self.assertFalse(hasattr(info, "named_by_a_newer_daemon"))
        caller = read(types.AuditEntry, {"caller": {"kind": "robot", "of": "ada"}}).caller
        self.assertEqual(repr(caller), "Record(kind='robot', of='ada')")

    def test_a_refusal_keeps_what_the_daemon_said(self) -> None:
        said = json.dumps({"code": "forbidden", "detail": "no", "remedy": "Ask.", "status": 403})
        with Server(answer(said, 403)) as server, self.assertRaises(Unauthorized) as failed:
            Squash(url=server.url, token="sq_1").info()
        self.assertEqual(str(failed.exception), "no (forbidden). Ask.")
        self.assertIn("authorization: Bearer sq_1\r\n", server.requests[0])
        with self.assertRaises(SquashError):
            Squash(url=server.url, token="a\r\nx: y").info()
        self.assertEqual([_credential("unix:/x", token) for token in ("operators", "sqk_key")], [None, "sqk_key"])

    def test_a_list_that_leads_to_itself_ends(self) -> None:
        with Server(answer('{"items":[],"next":"a"}')) as server, Squash(url=server.url) as squash:
            with self.assertRaises(ProtocolError):
                list(squash.modules.list())


def _credential(url: str, token: str) -> object:
    """What is sent there as token."""
    return vars(Squash(url=url, token=token).connection)["_token"]


class Streams(unittest.TestCase):
    def events(self, *streams: bytes) -> Tuple[List[object], List[str]]:
        found = [answer(json.dumps(BOX)), answer(json.dumps(PROCESS))]
        found += [answer(stream, kind="application/x-ndjson") for stream in streams]
        with Server(*found) as server, Squash(url=server.url) as squash:
            process = squash.sandboxes.get("box").processes.get(1)
            said: List[object] = []
            for event in process.output():
                said.append(event.data if event.type == "output" else event.type)
        return said, re.findall(r"after=(\d+)", "".join(server.requests))

    def test_output_goes_on_behind_the_last_byte_and_no_byte_comes_twice(self) -> None:
        exit = b'{"type":"exit","seq":9,"process":{"process":1,"state":"ended"}}\n'
        said, asked = self.events(
            b'{"type":"output","seq":3,"stream":"stdout","text":"abc"}\n{"type":"out',
            b'{"type":"output","seq":5,"stream":"stdout","base64":"YWJjZGU="}\n{"type":"keep_alive"}\n',
            b'{"type":"gap","seq":8,"bytes":3}\n{"type":"newer"}\n{"type":"output","seq":9,"stream":"stdout","text":"i"}\n' + exit,
        )
        self.assertEqual(said, [b"abc", b"de", "gap", b"i", "exit"])
        self.assertEqual(asked, ["0", "3", "5"])

    def test_a_stream_that_leaves_out_bytes_is_an_error(self) -> None:
        for stream in (
            b'{"type":"output","seq":9,"stream":"stdout","text":"abc"}\n',
            b'{"type":"output","seq":"9","stream":"stdout","text":"abc"}\n',
            b'{"type":"output","seq":3,"stream":"stdout","base64":"?"}\n',
            b"[" * 5_000_000,
        ):
            with self.subTest(stream[:60]), self.assertRaises(ProtocolError):
                self.events(stream)
        with self.assertRaises(SquashError) as ended:
            self.events(b'{"type":"error","code":"sandbox_not_found","message":"gone","remedy":""}\n')
        self.assertEqual(ended.exception.code, "sandbox_not_found")

    def test_a_download_that_breaks_off_leaves_nothing(self) -> None:
        broken = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf"
        with tempfile.TemporaryDirectory() as folder, Server(answer(json.dumps(BOX)), broken) as server:
            with Squash(url=server.url) as squash:
                box = squash.sandboxes.get("box")
                with self.assertRaises(Unreachable):
                    box.snapshots.download("x", os.path.join(folder, "x"))
                with self.assertRaises(Unreachable):
                    box.files.download_directory("/x", os.path.join(folder, "y"))
                with self.assertRaises(Unreachable):
                    box.files.read("/x")
            self.assertEqual(os.listdir(folder), [])

    def test_a_server_that_takes_nothing_ends_an_upload(self) -> None:
        forms: List[Callable[[str], None]] = [self._upload, lambda url: asyncio.run(self._upload_waiting(url))]
        for ask in forms:
            with Server(answer(json.dumps(BOX)), None) as server, self.assertRaises(Unreachable) as failed:
                ask(server.url)
            self.assertIn("nothing for 0.2 s", failed.exception.message)

    def _upload(self, url: str) -> None:
        with Squash(url=url, timeout_ms=200) as squash:
            squash.sandboxes.get("box").files.write("/x", bytes(50_000_000))

    async def _upload_waiting(self, url: str) -> None:
        async with AsyncSquash(url=url, timeout_ms=200) as squash:
            box = await squash.sandboxes.get("box")
            await box.files.write("/x", bytes(50_000_000))


class Archives(unittest.TestCase):
    def unpacked(self, *members: Tuple[str, bytes, str], data: bytes = b"x", cut: int = 0) -> List[str]:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, kind, target in members:
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.mode = kind, target, 0o4755
                member.size = len(data) if kind == tarfile.REGTYPE else 0
                archive.addfile(member, io.BytesIO(data))
        whole = made.getvalue()
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(folder, "tree")
            try:
                unpack(io.BytesIO(whole[: len(whole) - cut]), os.fsencode(tree))
            except BaseException:
                self.assertEqual(os.listdir(folder), [])
                raise
            self.assertEqual(os.listdir(folder), ["tree"])
            return sorted(f"{path.name} {path.lstat().st_mode & 0o7777:o}" for path in pathlib.Path(tree).rglob("*") if not path.is_symlink())

    def test_what_leads_out_is_refused(self) -> None:
        long = "../" * 50 + "etc"
        file, link, folder = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
        self.assertEqual(self.unpacked(("./", folder, ""), ("d/", folder, ""), ("d/a", file, ""), ("l", link, "/etc")), ["a 755", "d 755"])
        for members in (
            [("../out", file, "")],
            [("/etc/out", file, "")],
            [(long, file, "")],
            [("l", link, ".."), ("l/out", file, "")],
            [("d", link, "../"), ("d", folder, ""), ("d/out", file, "")],
            [("l", link, "../out"), ("l", file, "")],
            [("h", tarfile.LNKTYPE, "/etc/passwd")],
            [("c", tarfile.CHRTYPE, "")],
            [("no/parent", file, "")],
            [("./", file, "")],
        ):
            with self.subTest(members), self.assertRaises(ProtocolError) as refused:
                self.unpacked(*members)
            self.assertEqual(refused.exception.code, "archive_invalid")
        with self.assertRaises(ProtocolError):
            self.unpacked(("a", file, ""), data=bytes(100_000), cut=60_000)

    def test_a_size_below_nothing_reads_nothing(self) -> None:
        member = tarfile.TarInfo("x")
        member.type = tarfile.XHDTYPE
        header = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
        header[124:136] = b"-0000000001\0"
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * 32)
        archive = io.BytesIO(bytes(header) + bytes(1_048_576))
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(ProtocolError):
            unpack(archive, os.fsencode(os.path.join(folder, "tree")))
        self.assertEqual(archive.tell(), 512)

    def test_no_link_in_the_place_of_the_new_directory_is_followed(self) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name, kind in (("first", tarfile.REGTYPE), ("below", tarfile.DIRTYPE), ("below/second", tarfile.REGTYPE)):
                member = tarfile.TarInfo(name)
                member.type, member.mode = kind, 0o755
                archive.addfile(member, io.BytesIO())
        with tempfile.TemporaryDirectory() as folder:
            shared, outside = os.path.join(folder, "shared"), os.path.join(folder, "outside")
            os.mkdir(shared)
            os.mkdir(outside)
            for replaced in ("", "tree"):
                unpack(Swapping(made.getvalue(), shared, replaced, outside), os.fsencode(os.path.join(shared, "to")))
                self.assertEqual(os.listdir(outside), [])
                # All of it is where it was made, wherever somebody has moved that to.
                self.assertEqual(sorted(path.name for path in pathlib.Path(shared).rglob("second") if path.is_file()), ["second"])
                shutil.rmtree(shared)
                os.mkdir(shared)

    def test_a_directory_that_becomes_a_link_while_it_is_sent_is_not_left(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            here, outside = os.path.join(folder, "here"), os.path.join(folder, "outside")
            for place, text in ((os.path.join(here, "below"), b"own"), (outside, b"of the host")):
                os.makedirs(place)
                pathlib.Path(place, "large").write_bytes(bytes(300_000))
                pathlib.Path(place, "last").write_bytes(text)
            pieces = packed(here)
            sent = next(pieces)
            os.rename(os.path.join(here, "below"), os.path.join(folder, "moved"))
            os.symlink(outside, os.path.join(here, "below"))
            sent += b"".join(pieces)
            self.assertIn(b"own", sent)
            self.assertNotIn(b"of the host", sent)

    def test_a_path_that_could_hardly_be_removed_is_refused(self) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo("d/" * 3_000)
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ProtocolError, "too long a path"):
            unpack(io.BytesIO(made.getvalue()), os.fsencode(os.path.join(folder, "to")))


class Swapping(io.BytesIO):
    """An archive whose reader finds, behind its first file, a link where its directory was: as from a sandbox that has the one above."""

    def __init__(self, data: bytes, shared: str, below: str, outside: str) -> None:
        super().__init__(data)
        self.places = (shared, below, outside)
        self.swapped = False

    def read(self, size: Optional[int] = -1, /) -> bytes:
        shared, below, outside = self.places
        if self.tell() == 512 and not self.swapped:
            self.swapped = True
            (part,) = os.listdir(shared)
            place = os.path.join(shared, part, below).rstrip("/")
            os.rename(place, os.path.join(shared, "moved"))
            os.symlink(outside, place)
        return super().read(size)


if __name__ == "__main__":
    unittest.main()
