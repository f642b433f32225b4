"""Ways to a daemon: addresses, Unix sockets, TLS, threads, processes that fork."""

from __future__ import annotations

import os
import ssl
import subprocess
import tempfile
import threading
import unittest
from typing import List
from unittest import mock

from squash import AsyncSquash, BadRequest, Squash, Unreachable, _sockets
from squash._address import Address, find_daemon

from . import LAYERS
from .test_hostile import Server, answer

CERTIFICATE = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"


class Ways(unittest.TestCase):
    def test_the_daemon_is_found_as_the_command_line_finds_it(self) -> None:
        socket = Squash().info().socket
        data = os.path.dirname(os.path.dirname(socket))
        for environment, found in (
            ({"SQUASH_DATA": data}, Address(path=socket)),
            ({"SQUASH_DATA": data, "SQUASH_API": "https://squash.example.com/box/"}, Address(host="squash.example.com", port=443, is_tls=True, prefix="/box")),
            ({"SQUASH_API": "http://[::1]:81", "SQUASH_SOCKET": "/run/x.sock"}, Address(path="/run/x.sock")),
            ({"SQUASH_RUN": "/no/where", "SQUASH_PORT": "99"}, Address(host="127.0.0.1", port=99)),
            ({"SQUASH_RUN": "/no/where", "SQUASH_PORT": "off"}, Address(path="/no/where/api.sock")),
        ):
            with self.subTest(environment):
                self.assertEqual(find_daemon(None, environment), found)
        for wrong in ("localhost:8080", "ftp://x", "http://", "http://a@b", "http://a/?b", "http://a:99999", "http://a b"):
            with self.subTest(wrong), self.assertRaises(BadRequest):
                find_daemon(wrong)

    def test_a_unix_socket_is_asked_whatever_its_length(self) -> None:
        with Squash() as squash:
            socket = squash.info().socket
        with tempfile.TemporaryDirectory() as folder:
            long = os.path.join(folder, "x" * 120)
            os.symlink(os.path.dirname(socket), long)
            for path in (socket, os.path.join(long, os.path.basename(socket))):
                with Squash(url=f"unix:{path}") as squash:
                    self.assertEqual(squash.info().api, 1)

    def test_tls_is_spoken_with_whom_the_machine_trusts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(folder, "cert"), os.path.join(folder, "key"))
            trusting = {"SSL_CERT_FILE": os.path.join(folder, "cert")}
            with mock.patch.object(_sockets, "_context", None), mock.patch.dict(os.environ, trusting):
                with Server(answer('{"version":"1"}'), tls=context) as server:
                    url = server.url.replace("http://127.0.0.1", "https://localhost")
                    with Squash(url=url) as squash:
                        self.assertEqual([squash.info().version for _ in range(2)], ["1", "1"])
                    _sync_in_loop(url)
            with mock.patch.object(_sockets, "_context", None), Server(None, tls=context) as server:
                with self.assertRaises(Unreachable) as refused:
                    Squash(url=server.url.replace("http://127.0.0.1", "https://localhost")).info()
            self.assertIn("certificate verify failed", refused.exception.message)

    def test_threads_and_forks_share_a_client(self) -> None:
        with Squash() as squash, squash.sandboxes.create(from_=LAYERS) as box:
            said: List[str] = []

            def work(number: int) -> None:
                for round in range(10):
                    said.append(box.exec(["echo", f"{number}.{round}"]).stdout.strip())

            threads = [threading.Thread(target=work, args=[number]) for number in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(said), sorted(f"{number}.{round}" for number in range(5) for round in range(10)))
            child = os.fork()
            if child == 0:
                os._exit(0 if box.exec("echo child").stdout == "child\n" else 1)
            self.assertEqual(box.exec("echo parent").stdout, "parent\n")
            self.assertEqual(os.waitpid(child, 0)[1], 0)


def _sync_in_loop(url: str) -> None:
    import asyncio

    async def ask() -> None:
        async with AsyncSquash(url=url) as squash:
            assert (await squash.info()).version == "1"

    asyncio.run(ask())
