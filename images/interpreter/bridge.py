#!/usr/bin/python3
"""One context: a kernel that keeps state, spoken to in lines of JSON over standard input and output.

The daemon starts this as a process of the sandbox and takes what it writes for hostile: a cell is of the same user and can write
here, too. What is left of a cell that writes without end is bounded here, so that the daemon's store holds many cells and not one.
"""
import asyncio
import ctypes
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from queue import Empty

PLACE = os.path.dirname(os.path.realpath(__file__))
STREAM_BYTES_MAX = 1 << 20
RESULT_BYTES_MAX = 4 << 20
RESULTS_BYTES_MAX = 6 << 20
RESULTS_MAX = 256
# The daemon reads no line with more than three times as many.
JSON_VALUES_MAX = 40_000
PIECE_CHARACTERS = 16_384
COMMAND_BYTES_MAX = 8 << 20
CELLS_WAITING_MAX = 16
KERNEL_START_S = 60
# A person sees no difference, and neither does a program that waits for the end.
HELD_S = 0.005
HELD_BYTES_MAX = 32_768
# A kernel that an interrupt does not stop after so long is ended.
INTERRUPT_GRACE_S = 5
# A kernel that has answered and says nothing for so long has lost its last word: what it publishes may be dropped.
SILENCE_S = 1
FORMATS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/json": "json",
}
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Lines:
    """What is told, in few pieces: the daemon stores each, and a short cell is one."""

    def __init__(self):
        self.held = bytearray()
        self.timer = None

    def add(self, event, is_last):
        self.held += json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        if is_last or len(self.held) > HELD_BYTES_MAX:
            self.write()
        elif self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(HELD_S, self.write)

    def write(self):
        """Blocks while the daemon is slow, and with it the kernel: nothing piles up here."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        view, self.held = memoryview(self.held), bytearray()
        while view:
            view = view[os.write(1, view):]


lines = Lines()


def say(event):
    lines.add(event, event["type"] in ("state", "refused", "end"))


class Died(Exception):
    """The kernel has ended."""


class Cell:
    """What one cell writes, within its bounds."""

    def __init__(self, key):
        self.key = key
        self.left = {"stdout": STREAM_BYTES_MAX, "stderr": STREAM_BYTES_MAX}
        self.results_left = RESULTS_BYTES_MAX
        self.results = 0
        self.cut = {"stdout_bytes": 0, "stderr_bytes": 0, "results": 0}
        self.raised = None
        self.interrupted = None

    def text(self, stream, text):
        for at in range(0, len(text), PIECE_CHARACTERS):
            event = {"type": stream, "text": text[at:at + PIECE_CHARACTERS]}
            length = len(json.dumps(event))
            if length > self.left[stream]:
                # What comes behind a hole would be taken for what comes next.
                self.left[stream] = 0
                self.cut[stream + "_bytes"] += len(event["text"].encode("utf-8", "replace"))
            else:
                self.left[stream] -= length
                say(event)

    def result(self, data, is_main):
        event = {"type": "result", "is_main": is_main}
        size = 0
        for kind, value in data.items():
            name = FORMATS.get(kind)
            if name != "json" and not isinstance(value, str):
                value = json.dumps(value)
            if name in ("png", "jpeg"):
                value = "".join(value.split())
            elif name == "text":
                value = COLOURS.sub("", value)
            length = len(json.dumps(value))
            is_too_much = name == "json" and more_values(value, JSON_VALUES_MAX)
            if is_too_much or length > min(RESULT_BYTES_MAX, self.results_left - size):
                event.setdefault("omitted", []).append({"format": name or kind[:128], "bytes": length})
                continue
            size += length
            if name is None:
                event.setdefault("other", {})[kind[:128]] = value
            else:
                event[name] = value
        if self.results >= RESULTS_MAX or len(data) > 32:
            self.cut["results"] += 1
            return
        self.results += 1
        self.results_left -= size
        self.cut["results"] += len(event.get("omitted", []))
        say(event)

    def exception(self, name, message, traceback):
        if self.raised is None:
            self.raised = name
            say({"type": "exception", "name": name[:1024], "message": message[:65_536],
                 "traceback": COLOURS.sub("", traceback)[:262_144]})

    def clear(self):
        if self.results < RESULTS_MAX:
            self.results += 1
            say({"type": "clear"})


def more_values(value, most):
    """Whether it holds more than so many, all in all."""
    waiting, count = [value], 0
    while waiting and count <= most:
        count += 1
        inner = waiting.pop()
        if isinstance(inner, dict):
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
    return count > most


def with_bridge():
    """Whatever ends the bridge ends its kernel."""
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Kernel:
    """A process, its end, and the ways to it that all languages share."""

    process = None
    # SIGINT is the language's own way to stop a cell.
    async def interrupt(self):
        self.signal(signal.SIGINT)

    def signal(self, number):
        if self.process is not None and self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    async def end(self):
        self.signal(signal.SIGKILL)
        if self.process is not None:
            await self.process.wait()

    async def unless_dead(self, work):
        """The result of the work, or Died where the kernel ends first."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self.process.wait())
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            gone.cancel()
            return task.result()
        task.cancel()
        raise Died(died_of(self.process.returncode))


def died_of(code):
    if code >= 0:
        return f"the kernel ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"the kernel was ended by {name}" + (", perhaps for its memory" if name == "SIGKILL" else "")


class PythonKernel(Kernel):
    """IPython's own, by Jupyter's protocol over Unix sockets in a directory that nobody else may enter."""

    def __init__(self, directory):
        self.directory = directory
        self.client = None
        self.begun = None

    async def start(self):
        from jupyter_client import AsyncKernelClient
        from jupyter_client.connect import write_connection_file

        path = os.path.join(self.directory, f"kernel-{time.monotonic_ns()}.json")
        write_connection_file(path, transport="ipc", ip=path[:-5], shell_port=1, iopub_port=2, stdin_port=3, hb_port=4,
                              control_port=5)
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", path, "--HistoryManager.enabled=False",
                 "--InteractiveShell.colors=NoColor", "--IPKernelApp.log_level=50"]
        env = {**os.environ, "IPYTHONDIR": self.directory, "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", self.directory)}
        env.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        self.process = await asyncio.create_subprocess_exec(
            *words, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, preexec_fn=with_bridge)
        self.client = AsyncKernelClient(connection_file=path)
        self.client.load_connection_file()
        # Bounded by the cell that reads; what is published meanwhile waits in the kernel.
        self.client.start_channels(stdin=False, hb=False)
        await self.unless_dead(self.client.wait_for_ready(timeout=KERNEL_START_S))
        with open(os.path.join(PLACE, "startup.py"), encoding="utf-8") as file:
            self.client.execute(file.read(), silent=True, store_history=False)
        await self.unless_dead(self.client.get_shell_msg(timeout=KERNEL_START_S))

    async def interrupt(self):
        """Before it has begun with its cell a kernel passes the signal over."""
        begun = self.begun
        try:
            await asyncio.wait_for(begun.wait(), INTERRUPT_GRACE_S)
        except asyncio.TimeoutError:
            pass
        if begun is self.begun:
            await super().interrupt()

    async def run(self, code, cell):
        self.begun = asyncio.Event()
        return await self.unless_dead(self.converse(code, cell))

    async def converse(self, code, cell):
        message = self.client.execute(code, allow_stdin=False, stop_on_error=False)
        asking = asyncio.ensure_future(self.reply(message))
        try:
            while True:
                try:
                    told = await self.client.get_iopub_msg(timeout=SILENCE_S)
                except Empty:
                    if asking.done():
                        break
                    continue
                if not self.take(told, message, cell):
                    break
            # Interrupted right before its first line, a cell ends without a reply.
            await asyncio.wait({asking}, timeout=None if cell.interrupted is None else SILENCE_S)
            if not asking.done():
                cell.exception("KeyboardInterrupt", "", "KeyboardInterrupt")
                return False, None
            reply = asking.result()
        finally:
            asking.cancel()
        for payload in reply.get("payload", []):
            # What `?` and `??` answer.
            if payload.get("source") == "page":
                cell.result(payload.get("data", {}), False)
        return reply["status"] == "ok", reply.get("execution_count")

    def take(self, told, message, cell):
        """False: it was the last of the cell."""
        kind, content = told["msg_type"], told["content"]
        # Threads of earlier cells write, too.
        if kind == "stream" and content.get("name") in cell.left:
            cell.text(content["name"], content["text"])
        elif told["parent_header"].get("msg_id") != message:
            return True
        elif kind in ("execute_result", "display_data", "update_display_data"):
            cell.result(content["data"], kind == "execute_result")
        elif kind == "clear_output":
            cell.clear()
        elif kind == "execute_input":
            self.begun.set()
        elif kind == "error":
            cell.exception(content["ename"], content["evalue"], "\n".join(content["traceback"]))
        return not (kind == "status" and content["execution_state"] == "idle")

    async def reply(self, message):
        while True:
            told = await self.client.get_shell_msg(timeout=None)
            if told["parent_header"].get("msg_id") == message:
                return told["content"]

    async def end(self):
        await super().end()
        if self.client is not None:
            self.client.stop_channels()


class NodeKernel(Kernel):
    """Our own on Node (kernel.mjs): lines of JSON over two pipes; what its children write comes by its standard streams."""

    def __init__(self, language):
        self.language = language
        self.count = 0

    async def start(self):
        told_by, tell = os.pipe()
        listen, ask = os.pipe()
        try:
            self.process = await asyncio.create_subprocess_exec(
                os.path.join(PLACE, "node"), "--disable-warning=ExperimentalWarning",
                os.path.join(PLACE, "kernel.mjs"), str(listen), str(tell), self.language,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                pass_fds=(listen, tell), preexec_fn=with_bridge)
        finally:
            os.close(listen)
            os.close(tell)
        loop = asyncio.get_running_loop()
        self.events = asyncio.StreamReader(limit=16 << 20)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.events), os.fdopen(told_by, "rb"))
        self.asked = os.fdopen(ask, "wb", buffering=0)
        self.cell = None
        for stream in ("stdout", "stderr"):
            asyncio.ensure_future(self.pump(stream, getattr(self.process, stream)))
        first = await asyncio.wait_for(self.unless_dead(self.events.readline()), KERNEL_START_S)
        if json.loads(first) != {"type": "ready"}:
            raise Died(first.decode("utf-8", "replace")[:512])

    async def pump(self, stream, pipe):
        while data := await pipe.read(65_536):
            # What Node says when it ends beside an inspector.
            data = data.replace(b"Waiting for the debugger to disconnect...\n", b"")
            if self.cell is not None and data:
                self.cell.text(stream, data.decode("utf-8", "replace"))

    def tell(self, command):
        try:
            self.asked.write((json.dumps(command) + "\n").encode())
        except BrokenPipeError:
            pass

    async def interrupt(self):
        self.tell({"op": "interrupt"})

    async def run(self, code, cell):
        self.count += 1
        self.cell = cell
        # In a thread: a kernel that is busy with a timer of an earlier cell does not read yet.
        await self.unless_dead(asyncio.to_thread(self.tell, {"op": "run", "code": code}))
        while True:
            line = await self.events.readline()
            if not line:
                await self.process.wait()
                raise Died(died_of(self.process.returncode))
            event = json.loads(line)
            kind = event.get("type")
            if kind in ("stdout", "stderr"):
                cell.text(kind, event["text"])
            elif kind == "result":
                cell.result(event["data"], event["is_main"])
            elif kind == "exception":
                cell.exception(event["name"], event["message"], event["traceback"])
            elif kind == "clear":
                cell.clear()
            elif kind == "exit":
                await self.end()
                raise Died(died_of(event["code"]))
            elif kind == "done":
                # What its children wrote last is in the pipes already: seen, read and handed over, a turn of the loop each.
                for _ in range(3):
                    await asyncio.sleep(0)
                self.cell = None
                return event["ok"], self.count


class Context:
    def __init__(self, language, directory):
        self.language = language
        self.directory = directory
        self.waiting = asyncio.Queue()
        self.kernel = None
        self.current = None
        self.is_dead = False

    def new_kernel(self):
        return PythonKernel(self.directory) if self.language == "python" else NodeKernel(self.language)

    async def start(self):
        self.is_dead = False
        say({"type": "state", "state": "starting"})
        self.kernel = self.new_kernel()
        try:
            await self.kernel.start()
            say({"type": "state", "state": "idle"})
        except Exception as error:
            await self.kernel.end()
            self.die(f"the kernel does not start: {error}"[:1024])

    def die(self, why):
        self.is_dead = True
        say({"type": "state", "state": "dead", "error": why})

    async def work(self):
        await self.start()
        while True:
            command = await self.waiting.get()
            if command["op"] == "restart":
                await self.kernel.end()
                await self.start()
            elif self.is_dead:
                say({"type": "refused", "key": command["key"], "why": "dead"})
            else:
                await self.run(command)

    async def run(self, command):
        cell = self.current = Cell(command["key"])
        began = time.monotonic()
        say({"type": "cell", "key": cell.key})
        watch = asyncio.ensure_future(self.watch(cell, command.get("timeout_ms")))
        count, died = None, None
        try:
            ok, count = await self.kernel.run(command["code"], cell)
            status = "ok" if ok and cell.raised is None else "error"
        except Died as error:
            status, died = "kernel_died", str(error)
        except Exception as error:
            # What the kernel said was no message of its protocol: nobody knows where it stands.
            await self.kernel.end()
            status, died = "kernel_died", f"the kernel broke its protocol: {type(error).__name__}: {error}"[:1024]
        watch.cancel()
        self.current = None
        if cell.interrupted == "restart":
            status, died = "interrupted", None
        elif cell.interrupted is not None and status != "ok":
            status = cell.interrupted
        elif died is not None:
            cell.exception("KernelDied", died, "")
        say({"type": "end", "status": status, "execution_count": count, "cut": cell.cut,
             "duration_ms": round((time.monotonic() - began) * 1000)})
        if died is not None:
            self.die(died)

    async def watch(self, cell, timeout_ms):
        if timeout_ms is None:
            return
        await asyncio.sleep(timeout_ms / 1000)
        await self.interrupt(cell, "timeout")

    async def interrupt(self, cell, why):
        if cell is None or cell is not self.current:
            return
        cell.interrupted = cell.interrupted or why
        asyncio.ensure_future(self.kernel.interrupt())
        await asyncio.sleep(INTERRUPT_GRACE_S)
        if why == "timeout" and cell is self.current:
            self.kernel.signal(signal.SIGKILL)

    def take(self, command):
        operation = command.get("op")
        if operation == "interrupt":
            asyncio.ensure_future(self.interrupt(self.current, "interrupted"))
        elif operation == "restart":
            while not self.waiting.empty():
                earlier = self.waiting.get_nowait()
                # An earlier restart, which this one stands for, too.
                if "key" in earlier:
                    say({"type": "refused", "key": earlier["key"], "why": "restarted"})
            if self.current is not None:
                self.current.interrupted = "restart"
            self.kernel.signal(signal.SIGKILL)
            self.waiting.put_nowait(command)
        elif operation == "run":
            if self.waiting.qsize() >= CELLS_WAITING_MAX:
                say({"type": "refused", "key": command["key"], "why": "busy"})
            else:
                self.waiting.put_nowait(command)


async def main():
    language = sys.argv[1]
    os.umask(0o022)
    directory = tempfile.mkdtemp(prefix="squash-context-")
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=COMMAND_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin.buffer)
    context = Context(language, directory)
    work = asyncio.ensure_future(context.work())
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)

    async def read():
        while line := await commands.readline():
            try:
                context.take(json.loads(line))
            except (ValueError, KeyError, AttributeError):
                # The rest of a command that was not sent whole.
                pass

    listening = asyncio.ensure_future(read())
    ended = asyncio.ensure_future(over.wait())
    await asyncio.wait({work, listening, ended}, return_when=asyncio.FIRST_COMPLETED)
    if context.kernel is not None:
        await context.kernel.end()
    shutil.rmtree(directory, ignore_errors=True)
    # Not by asyncio's own end: what still waits is nobody's any more.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
