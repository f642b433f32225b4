"""What the daemon answers, as records. Written by tools/python-sdk.ts from contract/openapi.json.

Fields have the names that they have on the wire. Type checkers see frozen dataclasses, and `dataclasses.asdict` works. A field
that a newer daemon sends besides is not told here; one that an older daemon does not send raises `ProtocolError` when it is
read. Where a field names one of several words, a newer daemon may say another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from . import _record as r
from ._record import Record, Shape

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from ._record import dataclass


@dataclass(frozen=True)
class SandboxImage(Record):
    env: dict[str, str]
    """variables of every command"""
    user: str
    """as the image says it; empty: root"""
    uid: int | None
    """found in the image; null: its files have no such user"""
    gid: int | None
    home: str | None
    """of that user"""
    workdir: str
    """where commands start"""
    entrypoint: list[str]
    """what `squash run --image` starts where no command is named, with `cmd` behind it"""
    cmd: list[str]
    labels: dict[str, str]
    name: str
    id: str
    _shape: ClassVar[Shape] = {
        "env": r.mapping(r.text),
        "user": r.text,
        "uid": r.nullable(r.integer),
        "gid": r.nullable(r.integer),
        "home": r.nullable(r.text),
        "workdir": r.text,
        "entrypoint": r.array(r.text),
        "cmd": r.array(r.text),
        "labels": r.mapping(r.text),
        "name": r.text,
        "id": r.text,
    }


@dataclass(frozen=True)
class Warning(Record):
    code: str
    message: str
    _shape: ClassVar[Shape] = {
        "code": r.text,
        "message": r.text,
    }


@dataclass(frozen=True)
class Sandbox(Record):
    id: str
    name: str | None
    host_label: str
    """its part of the host names of its ports: `<port>-<host_label>.localhost`"""
    owner: str
    labels: dict[str, str]
    state: Literal["creating", "ready", "paused", "stopped", "restarting", "failed", "destroying"]
    """`paused`: it stands still with its processes; `stopped`: it has files and no processes"""
    failure: str | None
    """why it does not run, where it should"""
    backend: Literal["chroot", "vm"]
    """`chroot`: namespaces; `vm`: a kernel of its own"""
    layers: list[str]
    image: SandboxImage | None
    """the OCI image it was made from, and what its commands have from it; null: none"""
    host_paths: dict[str, Literal["hidden", "deny", "mask", "ro", "cow", "rw"]] | None
    """the levels of the host’s paths, where its root is the host’s file system; null: it has layers"""
    snapshot: str | None
    """the snapshot that it was made from or restored to last"""
    env: dict[str, str]
    cpu: float
    memory_mb: int
    disk_mb: int
    """what its own files may take"""
    disk_bytes: int
    """what they take, at most some seconds old"""
    commands: int
    """how many were started in it"""
    created_at: str
    last_active_at: str
    expires_at: str | None
    lifetime_s: int | None
    idle_timeout_s: int | None
    on_timeout: Literal["destroy", "pause", "snapshot"]
    warnings: list[Warning]
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "name": r.nullable(r.text),
        "host_label": r.text,
        "owner": r.text,
        "labels": r.mapping(r.text),
        "state": r.text,
        "failure": r.nullable(r.text),
        "backend": r.text,
        "layers": r.array(r.text),
        "image": r.nullable(r.record(SandboxImage)),
        "host_paths": r.nullable(r.mapping(r.text)),
        "snapshot": r.nullable(r.text),
        "env": r.mapping(r.text),
        "cpu": r.number,
        "memory_mb": r.integer,
        "disk_mb": r.integer,
        "disk_bytes": r.integer,
        "commands": r.integer,
        "created_at": r.text,
        "last_active_at": r.text,
        "expires_at": r.nullable(r.text),
        "lifetime_s": r.nullable(r.integer),
        "idle_timeout_s": r.nullable(r.integer),
        "on_timeout": r.text,
        "warnings": r.array(r.record(Warning)),
    }


@dataclass(frozen=True)
class ProcessResultUser(Record):
    uid: int
    gid: int
    _shape: ClassVar[Shape] = {
        "uid": r.integer,
        "gid": r.integer,
    }


@dataclass(frozen=True)
class ProcessResult(Record):
    process: int
    """its number in the sandbox: the command’s `seq`"""
    tag: str | None
    kind: Literal["exec", "process", "stream", "job"]
    """`process`: by `process.start`; `exec`: somebody waits for its end; `stream`: over a WebSocket of its own; `job`: by exec-bg"""
    state: Literal["running", "ended"]
    pid: int | None
    """inside the sandbox; null when it has ended or is just being found again"""
    argv: list[str] | None
    """null where it was started as a shell line"""
    command: str
    """the shell line, or `argv` written as one"""
    cwd: str
    user: ProcessResultUser | None
    """null: nobody noted it"""
    pty: bool
    stdin: Literal["none", "open", "ended"]
    timeout_ms: int | None
    started_at: str
    """RFC 3339 with milliseconds, UTC"""
    finished_at: str | None
    duration_ms: int | None
    exit_code: int | None
    """128 + signal where a signal ended it; 124 when timed out; 126, 127: it could not be started; null while it runs"""
    signal: int | None
    timed_out: bool
    reason: Literal["exited", "signaled", "timed_out", "oom_killed", "upper_full", "layers_changed", "destroyed", "killed", "stopped", "lost"] | None
    stdout_bytes: int
    """bytes written, kept or not"""
    stderr_bytes: int
    encoding: Literal["text", "base64"]
    stdout: str
    """what is kept of it"""
    stderr: str
    truncated: bool
    """more was written than is here"""
    _shape: ClassVar[Shape] = {
        "process": r.integer,
        "tag": r.nullable(r.text),
        "kind": r.text,
        "state": r.text,
        "pid": r.nullable(r.integer),
        "argv": r.nullable(r.array(r.text)),
        "command": r.text,
        "cwd": r.text,
        "user": r.nullable(r.record(ProcessResultUser)),
        "pty": r.boolean,
        "stdin": r.text,
        "timeout_ms": r.nullable(r.integer),
        "started_at": r.text,
        "finished_at": r.nullable(r.text),
        "duration_ms": r.nullable(r.integer),
        "exit_code": r.nullable(r.integer),
        "signal": r.nullable(r.integer),
        "timed_out": r.boolean,
        "reason": r.nullable(r.text),
        "stdout_bytes": r.integer,
        "stderr_bytes": r.integer,
        "encoding": r.text,
        "stdout": r.text,
        "stderr": r.text,
        "truncated": r.boolean,
    }


@dataclass(frozen=True)
class SandboxRunAnswer(Record):
    sandbox: str
    """which is gone"""
    result: ProcessResult
    _shape: ClassVar[Shape] = {
        "sandbox": r.text,
        "result": r.record(ProcessResult),
    }


@dataclass(frozen=True)
class ProcessInfo(Record):
    process: int
    """its number in the sandbox: the command’s `seq`"""
    tag: str | None
    kind: Literal["exec", "process", "stream", "job"]
    """`process`: by `process.start`; `exec`: somebody waits for its end; `stream`: over a WebSocket of its own; `job`: by exec-bg"""
    state: Literal["running", "ended"]
    pid: int | None
    """inside the sandbox; null when it has ended or is just being found again"""
    argv: list[str] | None
    """null where it was started as a shell line"""
    command: str
    """the shell line, or `argv` written as one"""
    cwd: str
    user: ProcessResultUser | None
    """null: nobody noted it"""
    pty: bool
    stdin: Literal["none", "open", "ended"]
    timeout_ms: int | None
    started_at: str
    """RFC 3339 with milliseconds, UTC"""
    finished_at: str | None
    duration_ms: int | None
    exit_code: int | None
    """128 + signal where a signal ended it; 124 when timed out; 126, 127: it could not be started; null while it runs"""
    signal: int | None
    timed_out: bool
    reason: Literal["exited", "signaled", "timed_out", "oom_killed", "upper_full", "layers_changed", "destroyed", "killed", "stopped", "lost"] | None
    stdout_bytes: int
    """bytes written, kept or not"""
    stderr_bytes: int
    _shape: ClassVar[Shape] = {
        "process": r.integer,
        "tag": r.nullable(r.text),
        "kind": r.text,
        "state": r.text,
        "pid": r.nullable(r.integer),
        "argv": r.nullable(r.array(r.text)),
        "command": r.text,
        "cwd": r.text,
        "user": r.nullable(r.record(ProcessResultUser)),
        "pty": r.boolean,
        "stdin": r.text,
        "timeout_ms": r.nullable(r.integer),
        "started_at": r.text,
        "finished_at": r.nullable(r.text),
        "duration_ms": r.nullable(r.integer),
        "exit_code": r.nullable(r.integer),
        "signal": r.nullable(r.integer),
        "timed_out": r.boolean,
        "reason": r.nullable(r.text),
        "stdout_bytes": r.integer,
        "stderr_bytes": r.integer,
    }


@dataclass(frozen=True)
class ProcessStdinAnswer(Record):
    bytes: int
    """taken of this request; a process that has ended or closed its input takes nothing and is sent all"""
    _shape: ClassVar[Shape] = {
        "bytes": r.integer,
    }


@dataclass(frozen=True)
class ProcessWait(Record):
    process: ProcessInfo
    seq: int | None
    """of a line: where it ends in the output"""
    line: str | None
    """the line that matched"""
    _shape: ClassVar[Shape] = {
        "process": r.record(ProcessInfo),
        "seq": r.nullable(r.integer),
        "line": r.nullable(r.text),
    }


@dataclass(frozen=True)
class Context(Record):
    context: str
    language: Literal["python", "javascript", "typescript"]
    state: Literal["starting", "idle", "busy", "dead", "ended"]
    """`dead`: the kernel died, and `context.restart` starts another; `ended`: the whole context"""
    cell: int | None
    """the cell that runs"""
    process: int
    """the process of the sandbox that it is"""
    cwd: str
    started_at: str
    """RFC 3339 with milliseconds, UTC"""
    error: str | None
    """why it is dead or has ended"""
    _shape: ClassVar[Shape] = {
        "context": r.text,
        "language": r.text,
        "state": r.text,
        "cell": r.nullable(r.integer),
        "process": r.integer,
        "cwd": r.text,
        "started_at": r.text,
        "error": r.nullable(r.text),
    }


@dataclass(frozen=True)
class ContextListAnswer(Record):
    items: list[Context]
    _shape: ClassVar[Shape] = {
        "items": r.array(r.record(Context)),
    }


@dataclass(frozen=True)
class ExecutionCut(Record):
    """what was left out past the limits; all 0: nothing"""
    stdout_bytes: int
    stderr_bytes: int
    results: int
    _shape: ClassVar[Shape] = {
        "stdout_bytes": r.integer,
        "stderr_bytes": r.integer,
        "results": r.integer,
    }


@dataclass(frozen=True)
class ExecutionResultOmitted(Record):
    format: str
    bytes: int
    _shape: ClassVar[Shape] = {
        "format": r.text,
        "bytes": r.integer,
    }


@dataclass(frozen=True)
class ExecutionResult(Record):
    is_main: bool
    """the value of the cell; what it displayed by the way is not"""
    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    latex: str | None = None
    svg: str | None = None
    png: str | None = None
    """base64"""
    jpeg: str | None = None
    """base64"""
    json: object | None = None
    """a data frame: its first 100 rows as `columns`, `index`, `data`, and how many `rows` it has"""
    other: dict[str, str] | None = None
    """by media type"""
    omitted: list[ExecutionResultOmitted] | None = None
    """formats that were too large"""
    _shape: ClassVar[Shape] = {
        "is_main": r.boolean,
        "text": r.text,
        "html": r.text,
        "markdown": r.text,
        "latex": r.text,
        "svg": r.text,
        "png": r.text,
        "jpeg": r.text,
        "json": r.anything,
        "other": r.mapping(r.text),
        "omitted": r.array(r.record(ExecutionResultOmitted)),
    }


@dataclass(frozen=True)
class ExecutionError(Record):
    name: str
    message: str
    traceback: str
    """lines of plain text; empty where there is none"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "message": r.text,
        "traceback": r.text,
    }


@dataclass(frozen=True)
class Execution(Record):
    cell: int
    context: str
    language: Literal["python", "javascript", "typescript"]
    status: Literal["ok", "error", "interrupted", "timeout", "kernel_died"]
    execution_count: int | None
    duration_ms: int
    cut: ExecutionCut
    """what was left out past the limits; all 0: nothing"""
    stdout: str
    stderr: str
    results: list[ExecutionResult]
    error: ExecutionError | None
    """what the cell raised, or how its kernel died"""
    _shape: ClassVar[Shape] = {
        "cell": r.integer,
        "context": r.text,
        "language": r.text,
        "status": r.text,
        "execution_count": r.nullable(r.integer),
        "duration_ms": r.integer,
        "cut": r.record(ExecutionCut),
        "stdout": r.text,
        "stderr": r.text,
        "results": r.array(r.record(ExecutionResult)),
        "error": r.nullable(r.record(ExecutionError)),
    }


@dataclass(frozen=True)
class ContextEventCell(Record):
    type: Literal["cell"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    context: str
    language: Literal["python", "javascript", "typescript"]
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "context": r.text,
        "language": r.text,
    }


@dataclass(frozen=True)
class ContextEventStdout(Record):
    type: Literal["stdout"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    text: str
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "text": r.text,
    }


@dataclass(frozen=True)
class ContextEventStderr(Record):
    type: Literal["stderr"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    text: str
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "text": r.text,
    }


@dataclass(frozen=True)
class ContextEventResult(Record):
    type: Literal["result"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    is_main: bool
    """the value of the cell; what it displayed by the way is not"""
    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    latex: str | None = None
    svg: str | None = None
    png: str | None = None
    """base64"""
    jpeg: str | None = None
    """base64"""
    json: object | None = None
    """a data frame: its first 100 rows as `columns`, `index`, `data`, and how many `rows` it has"""
    other: dict[str, str] | None = None
    """by media type"""
    omitted: list[ExecutionResultOmitted] | None = None
    """formats that were too large"""
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "is_main": r.boolean,
        "text": r.text,
        "html": r.text,
        "markdown": r.text,
        "latex": r.text,
        "svg": r.text,
        "png": r.text,
        "jpeg": r.text,
        "json": r.anything,
        "other": r.mapping(r.text),
        "omitted": r.array(r.record(ExecutionResultOmitted)),
    }


@dataclass(frozen=True)
class ContextEventClear(Record):
    """results and output before it are to be forgotten"""
    type: Literal["clear"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
    }


@dataclass(frozen=True)
class ContextEventException(Record):
    type: Literal["exception"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    name: str
    message: str
    traceback: str
    """lines of plain text; empty where there is none"""
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "name": r.text,
        "message": r.text,
        "traceback": r.text,
    }


@dataclass(frozen=True)
class ContextEventEnd(Record):
    type: Literal["end"]
    seq: int
    """what `after` resumes behind"""
    cell: int
    """its number; numbers rise and have gaps"""
    status: Literal["ok", "error", "interrupted", "timeout", "kernel_died"]
    execution_count: int | None
    duration_ms: int
    cut: ExecutionCut
    """what was left out past the limits; all 0: nothing"""
    _shape: ClassVar[Shape] = {
        "type": r.anything,
        "seq": r.integer,
        "cell": r.integer,
        "status": r.text,
        "execution_count": r.nullable(r.integer),
        "duration_ms": r.integer,
        "cut": r.record(ExecutionCut),
    }


@dataclass(frozen=True)
class File(Record):
    path: str
    type: Literal["file", "directory", "symlink", "fifo", "socket", "device"]
    size: int
    mode: str
    """octal, four digits"""
    uid: int
    gid: int
    modified_at: str
    etag: str | None
    """of this state of the file, as the header ETag has it"""
    path_base64: str | None = None
    """where `path` does not show its bytes"""
    target: str | None = None
    """a symlink’s text"""
    target_base64: str | None = None
    _shape: ClassVar[Shape] = {
        "path": r.text,
        "type": r.text,
        "size": r.integer,
        "mode": r.text,
        "uid": r.integer,
        "gid": r.integer,
        "modified_at": r.text,
        "etag": r.nullable(r.text),
        "path_base64": r.text,
        "target": r.text,
        "target_base64": r.text,
    }


@dataclass(frozen=True)
class FileMatch(Record):
    path: str
    line: int
    """from 1"""
    column: int
    """from 1, in bytes"""
    text: str
    """the line, or a piece of it around the match"""
    text_offset: int
    """where in the line `text` begins, in bytes"""
    path_base64: str | None = None
    """where `path` does not show its bytes"""
    _shape: ClassVar[Shape] = {
        "path": r.text,
        "line": r.integer,
        "column": r.integer,
        "text": r.text,
        "text_offset": r.integer,
        "path_base64": r.text,
    }


@dataclass(frozen=True)
class FileMatches(Record):
    items: list[FileMatch]
    truncated: bool
    """a bound ended the search: there may be more"""
    _shape: ClassVar[Shape] = {
        "items": r.array(r.record(FileMatch)),
        "truncated": r.boolean,
    }


@dataclass(frozen=True)
class FileEvent(Record):
    change: Literal["created", "changed", "attributes", "removed", "moved"]
    path: str
    path_base64: str | None = None
    """where `path` does not show its bytes"""
    _shape: ClassVar[Shape] = {
        "change": r.text,
        "path": r.text,
        "path_base64": r.text,
    }


@dataclass(frozen=True)
class FileUnpackAnswer(Record):
    entries: int
    bytes: int
    _shape: ClassVar[Shape] = {
        "entries": r.integer,
        "bytes": r.integer,
    }


@dataclass(frozen=True)
class PortInfoProcess(Record):
    pid: int
    name: str
    _shape: ClassVar[Shape] = {
        "pid": r.integer,
        "name": r.text,
    }


@dataclass(frozen=True)
class PortInfo(Record):
    port: int
    addresses: list[str]
    """that it listens on"""
    process: PortInfoProcess | None
    """who listens, as the sandbox tells it; `null` where that is another user than root"""
    access: Literal["public", "token"]
    url: str | None
    """where browsers find it; `null` where the daemon listens on its Unix socket alone"""
    _shape: ClassVar[Shape] = {
        "port": r.integer,
        "addresses": r.array(r.text),
        "process": r.nullable(r.record(PortInfoProcess)),
        "access": r.text,
        "url": r.nullable(r.text),
    }


@dataclass(frozen=True)
class Port(Record):
    port: int
    access: Literal["public", "token"]
    url: str | None
    """where browsers find it; `null` where the daemon listens on its Unix socket alone"""
    _shape: ClassVar[Shape] = {
        "port": r.integer,
        "access": r.text,
        "url": r.nullable(r.text),
    }


@dataclass(frozen=True)
class PortLink(Record):
    url: str | None
    """where browsers find it; `null` where the daemon listens on its Unix socket alone"""
    token: str
    """for programs: the header `Squash-Preview-Token`"""
    expires_at: str
    _shape: ClassVar[Shape] = {
        "url": r.nullable(r.text),
        "token": r.text,
        "expires_at": r.text,
    }


@dataclass(frozen=True)
class Module(Record):
    name: str
    """without `.squashfs`"""
    size_bytes: int
    """of the squashfs file"""
    location: Literal["local", "remote"]
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "size_bytes": r.integer,
        "location": r.text,
    }


@dataclass(frozen=True)
class ModuleDetails(Record):
    name: str
    """without `.squashfs`"""
    size_bytes: int
    """of the squashfs file"""
    location: Literal["local", "remote"]
    sha256: str
    """of the squashfs file: what the module is, whatever it is called"""
    built_at: str | None
    """RFC 3339, UTC; null: it has no manifest"""
    builder: str | None
    """what built it"""
    base: str | None
    """`name@sha256:digest` of the module it is a difference to"""
    packages: list[str]
    """`name=version`, what it adds to its base"""
    provenance: dict[str, str]
    """where it comes from, in words of who built it"""
    architecture: str | None
    """of its programs: `x86_64` or `aarch64`; null: it has none, or has not been unpacked yet"""
    libc: Literal["glibc", "musl"] | None
    """the C library that its programs are linked to; null: none, or not unpacked yet"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "size_bytes": r.integer,
        "location": r.text,
        "sha256": r.text,
        "built_at": r.nullable(r.text),
        "builder": r.nullable(r.text),
        "base": r.nullable(r.text),
        "packages": r.array(r.text),
        "provenance": r.mapping(r.text),
        "architecture": r.nullable(r.text),
        "libc": r.nullable(r.text),
    }


@dataclass(frozen=True)
class GcAnswer(Record):
    dry_run: bool
    trees: int
    """unpacked layers that are there, those that go included"""
    trees_in_use: int
    """of them, those that a sandbox stands on"""
    trees_removed: int
    """or would be, with `dry_run`"""
    bytes_freed: int
    """on the disk"""
    _shape: ClassVar[Shape] = {
        "dry_run": r.boolean,
        "trees": r.integer,
        "trees_in_use": r.integer,
        "trees_removed": r.integer,
        "bytes_freed": r.integer,
    }


@dataclass(frozen=True)
class Image(Record):
    name: str
    """all of it: `docker.io/library/python:3.12-slim`"""
    id: str
    """`sha256:…` of its configuration, as other engines show it"""
    digest: str | None
    """`sha256:…` of its manifest; null: it came without one, as in a docker-archive"""
    architecture: str
    """`amd64`, `arm64`"""
    created_at: str | None
    """when it was built, as it says"""
    pulled_at: str
    """since when it is here; RFC 3339, UTC"""
    source: Literal["registry", "archive", "sandbox"]
    size_bytes: int
    """of its layers here"""
    layers: int
    """that it has; here they may be fewer: equal ones are one, and a deep image’s lowest are merged"""
    modules: list[str]
    """its layers here, lowest first"""
    devices_left_out: int
    """device nodes that its layers have and a sandbox does not get"""
    env: dict[str, str]
    """variables of every command"""
    user: str
    """as the image says it; empty: root"""
    uid: int | None
    """found in the image; null: its files have no such user"""
    gid: int | None
    home: str | None
    """of that user"""
    workdir: str
    """where commands start"""
    entrypoint: list[str]
    """what `squash run --image` starts where no command is named, with `cmd` behind it"""
    cmd: list[str]
    labels: dict[str, str]
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "id": r.text,
        "digest": r.nullable(r.text),
        "architecture": r.text,
        "created_at": r.nullable(r.text),
        "pulled_at": r.text,
        "source": r.text,
        "size_bytes": r.integer,
        "layers": r.integer,
        "modules": r.array(r.text),
        "devices_left_out": r.integer,
        "env": r.mapping(r.text),
        "user": r.text,
        "uid": r.nullable(r.integer),
        "gid": r.nullable(r.integer),
        "home": r.nullable(r.text),
        "workdir": r.text,
        "entrypoint": r.array(r.text),
        "cmd": r.array(r.text),
        "labels": r.mapping(r.text),
    }


@dataclass(frozen=True)
class ImagePull(Record):
    state: Literal["pulling", "ready"]
    name: str
    layers: int
    """0: not known yet"""
    layers_done: int
    bytes: int
    """to be fetched; what is here already does not count"""
    bytes_done: int
    image: Image | None
    """null while it is `pulling`"""
    _shape: ClassVar[Shape] = {
        "state": r.text,
        "name": r.text,
        "layers": r.integer,
        "layers_done": r.integer,
        "bytes": r.integer,
        "bytes_done": r.integer,
        "image": r.nullable(r.record(Image)),
    }


@dataclass(frozen=True)
class ImagePush(Record):
    state: Literal["pushing", "ready"]
    name: str
    """of the image here"""
    destination: str
    layers: int
    layers_done: int
    layers_present: int
    """that the registry had already"""
    bytes: int
    """to be sent, as far as it is known"""
    bytes_done: int
    digest: str | None
    """`sha256:…` of its manifest in the registry; null while it is `pushing`"""
    _shape: ClassVar[Shape] = {
        "state": r.text,
        "name": r.text,
        "destination": r.text,
        "layers": r.integer,
        "layers_done": r.integer,
        "layers_present": r.integer,
        "bytes": r.integer,
        "bytes_done": r.integer,
        "digest": r.nullable(r.text),
    }


@dataclass(frozen=True)
class SnapshotTaken(Record):
    label: str
    labels: dict[str, str]
    created_at: str
    size_bytes: int
    """of its own file; a download may be larger where it is not whole"""
    memory_bytes: int | None
    """of the memory and the disk that were saved with it, which are on this machine alone; null: none were"""
    location: Literal["local", "remote"]
    """`remote`: only the bucket has it; a restore brings it"""
    whole: bool
    """false: its file holds what was written since the snapshot it was taken on"""
    base: str | None
    """that snapshot; null where it is whole, or where that one was removed"""
    active: bool
    """the sandbox was restored from it last"""
    pause_ms: float
    """how long the sandbox stood still while its files were read"""
    _shape: ClassVar[Shape] = {
        "label": r.text,
        "labels": r.mapping(r.text),
        "created_at": r.text,
        "size_bytes": r.integer,
        "memory_bytes": r.nullable(r.integer),
        "location": r.text,
        "whole": r.boolean,
        "base": r.nullable(r.text),
        "active": r.boolean,
        "pause_ms": r.number,
    }


@dataclass(frozen=True)
class Snapshot(Record):
    label: str
    labels: dict[str, str]
    created_at: str
    size_bytes: int
    """of its own file; a download may be larger where it is not whole"""
    memory_bytes: int | None
    """of the memory and the disk that were saved with it, which are on this machine alone; null: none were"""
    location: Literal["local", "remote"]
    """`remote`: only the bucket has it; a restore brings it"""
    whole: bool
    """false: its file holds what was written since the snapshot it was taken on"""
    base: str | None
    """that snapshot; null where it is whole, or where that one was removed"""
    active: bool
    """the sandbox was restored from it last"""
    _shape: ClassVar[Shape] = {
        "label": r.text,
        "labels": r.mapping(r.text),
        "created_at": r.text,
        "size_bytes": r.integer,
        "memory_bytes": r.nullable(r.integer),
        "location": r.text,
        "whole": r.boolean,
        "base": r.nullable(r.text),
        "active": r.boolean,
    }


@dataclass(frozen=True)
class Difference(Record):
    change: Literal["added", "changed", "removed"]
    """`removed` tells of a directory without what was in it"""
    path: str
    """bytes that are no UTF-8 are U+FFFD"""
    type: Literal["file", "directory", "symlink", "fifo", "socket", "device"]
    mode: str
    """permission bits, octal"""
    size_bytes: int
    """0 of a directory"""
    _shape: ClassVar[Shape] = {
        "change": r.text,
        "path": r.text,
        "type": r.text,
        "mode": r.text,
        "size_bytes": r.integer,
    }


@dataclass(frozen=True)
class Bucket(Record):
    name: str
    endpoint: str | None
    """null: Amazon’s own"""
    region: str
    prefix: str
    """what all keys begin with; those that are told here are without it"""
    ephemeral: bool
    """files of sandboxes last in the bucket alone"""
    pending: int
    """modules and snapshots that wait to be pushed"""
    problems: list[str]
    """what does not work, and what is not the same here and there"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "endpoint": r.nullable(r.text),
        "region": r.text,
        "prefix": r.text,
        "ephemeral": r.boolean,
        "pending": r.integer,
        "problems": r.array(r.text),
    }


@dataclass(frozen=True)
class BucketObject(Record):
    key: str
    size_bytes: int
    modified_at: str
    _shape: ClassVar[Shape] = {
        "key": r.text,
        "size_bytes": r.integer,
        "modified_at": r.text,
    }


@dataclass(frozen=True)
class BucketList(Record):
    items: list[BucketObject]
    """sorted by key"""
    complete: bool
    """false: there are more; ask with a longer prefix"""
    _shape: ClassVar[Shape] = {
        "items": r.array(r.record(BucketObject)),
        "complete": r.boolean,
    }


@dataclass(frozen=True)
class VolumeInfoAttachedTo(Record):
    sandbox: str
    mount: str
    mode: Literal["ro", "rw"]
    _shape: ClassVar[Shape] = {
        "sandbox": r.text,
        "mount": r.text,
        "mode": r.text,
    }


@dataclass(frozen=True)
class VolumeInfo(Record):
    id: str
    name: str
    owner: str
    labels: dict[str, str]
    size_mb: int | None
    """what its files may take; null: nothing holds it"""
    snapshot_of: str | None
    """the volume that it was taken of; a snapshot is attached read-only"""
    created_at: str
    """RFC 3339, UTC"""
    attached_to: list[VolumeInfoAttachedTo]
    """one sandbox for writing, or any number for reading"""
    warnings: list[Warning]
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "name": r.text,
        "owner": r.text,
        "labels": r.mapping(r.text),
        "size_mb": r.nullable(r.integer),
        "snapshot_of": r.nullable(r.text),
        "created_at": r.text,
        "attached_to": r.array(r.record(VolumeInfoAttachedTo)),
        "warnings": r.array(r.record(Warning)),
    }


@dataclass(frozen=True)
class MountInfoPaths(Record):
    mask: str
    """the text that stands in the file’s place"""
    _shape: ClassVar[Shape] = {
        "mask": r.text,
    }


@dataclass(frozen=True)
class MountInfo(Record):
    id: str
    volume: str | None
    """the volume’s id"""
    host: str | None
    """the directory of the host"""
    path: str
    mode: Literal["ro", "cow", "rw"]
    paths: dict[str, Literal["hidden", "deny", "ro", "cow", "rw"] | MountInfoPaths] | None = None
    """levels of what lies in it"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "volume": r.nullable(r.text),
        "host": r.nullable(r.text),
        "path": r.text,
        "mode": r.text,
        "paths": r.mapping(r.either(r.text, r.record(MountInfoPaths))),
    }


@dataclass(frozen=True)
class MountCheckAnswerStep(Record):
    rule: str
    """`place`, `tier`, `path`, `list`, `owner`, `mode`, …"""
    allowed: bool
    reason: str | None
    """the code of a refusal"""
    sentence: str
    _shape: ClassVar[Shape] = {
        "rule": r.text,
        "allowed": r.boolean,
        "reason": r.nullable(r.text),
        "sentence": r.text,
    }


@dataclass(frozen=True)
class MountCheckAnswer(Record):
    allowed: bool
    mode: Literal["ro", "cow", "rw"]
    reason: str | None
    """why not, as `host_directory_refused` has it"""
    steps: list[MountCheckAnswerStep]
    """the rules in the order they are asked; one that refuses is the last"""
    _shape: ClassVar[Shape] = {
        "allowed": r.boolean,
        "mode": r.text,
        "reason": r.nullable(r.text),
        "steps": r.array(r.record(MountCheckAnswerStep)),
    }


@dataclass(frozen=True)
class ChangeListItem(Record):
    change: Literal["added", "changed", "removed"]
    """`removed` tells of a directory without what was in it"""
    path: str
    """bytes that are no UTF-8 are U+FFFD"""
    type: Literal["file", "directory", "symlink", "fifo", "socket", "device"]
    mode: str
    """permission bits, octal"""
    size_bytes: int
    """0 of a directory"""
    held: str | None
    """why it is brought to the host only where that is asked for; null: it is not held"""
    _shape: ClassVar[Shape] = {
        "change": r.text,
        "path": r.text,
        "type": r.text,
        "mode": r.text,
        "size_bytes": r.integer,
        "held": r.nullable(r.text),
    }


@dataclass(frozen=True)
class ChangeApplyAnswerItem(Record):
    path: str
    outcome: Literal["applied", "same", "held", "conflict", "refused"]
    """`same`: the host has it already; `conflict`: the host’s was changed since the sandbox began; else see `reason`"""
    reason: str | None
    _shape: ClassVar[Shape] = {
        "path": r.text,
        "outcome": r.text,
        "reason": r.nullable(r.text),
    }


@dataclass(frozen=True)
class ChangeApplyAnswer(Record):
    items: list[ChangeApplyAnswerItem]
    _shape: ClassVar[Shape] = {
        "items": r.array(r.record(ChangeApplyAnswerItem)),
    }


@dataclass(frozen=True)
class RefusedPath(Record):
    id: int
    """of this sandbox; rises"""
    at: str
    """when it was refused first, RFC 3339"""
    path: str
    """absolute; by the text alone, so links are as they were written"""
    intent: Literal["look", "read", "write", "execute"]
    """`look`: whether it is there, and what; `write`: also to make, rename or remove it"""
    path_base64: str | None = None
    """the path’s bytes, where they are not UTF-8"""
    _shape: ClassVar[Shape] = {
        "id": r.integer,
        "at": r.text,
        "path": r.text,
        "intent": r.text,
        "path_base64": r.text,
    }


@dataclass(frozen=True)
class RefusedPaths(Record):
    traced: bool
    """whether it was made with `from.host.trace_paths`; else there is nothing"""
    items: list[RefusedPath]
    """in the order in which they came"""
    truncated: bool
    """there were more than are kept: 10000, or a megabyte of paths"""
    _shape: ClassVar[Shape] = {
        "traced": r.boolean,
        "items": r.array(r.record(RefusedPath)),
        "truncated": r.boolean,
    }


@dataclass(frozen=True)
class PolicyRule(Record):
    to: list[str]
    ports: list[str] | None = None
    methods: list[str] | None = None
    paths: list[str] | None = None
    upgrades: list[str] | None = None
    _shape: ClassVar[Shape] = {
        "to": r.array(r.text),
        "ports": r.array(r.text),
        "methods": r.array(r.text),
        "paths": r.array(r.text),
        "upgrades": r.array(r.text),
    }


@dataclass(frozen=True)
class Policy(Record):
    allow: list[str | PolicyRule]
    deny: list[str | PolicyRule]
    dns: Literal["refuse", "nxdomain"]
    ask: list[str | PolicyRule] | None = None
    """left out where nobody is asked"""
    ask_timeout_ms: int | None = None
    _shape: ClassVar[Shape] = {
        "allow": r.array(r.either(r.text, r.record(PolicyRule))),
        "deny": r.array(r.either(r.text, r.record(PolicyRule))),
        "dns": r.text,
        "ask": r.array(r.either(r.text, r.record(PolicyRule))),
        "ask_timeout_ms": r.integer,
    }


@dataclass(frozen=True)
class SandboxPolicy(Record):
    policy: Policy
    ceiling: Policy | None
    """what no sandbox’s policy can exceed; null where there is none"""
    secrets: Literal["all"] | list[str]
    """names of the secrets of the installation it may use, or `all`"""
    own_secrets: list[str]
    """names of secrets of its own"""
    own_secret_hosts: dict[str, list[str]]
    """the hosts that may have them, by name; empty where their file can not be used"""
    upstream: str | None
    """name of the proxy that it goes out through; null: none"""
    in_force: bool
    """false while the egress process does not answer or can not use this: then nothing is reached, and this holds when that is mended"""
    pending: str | None
    """why it is not in force, and what mends that; null: it is"""
    _shape: ClassVar[Shape] = {
        "policy": r.record(Policy),
        "ceiling": r.nullable(r.record(Policy)),
        "secrets": r.either(r.anything, r.array(r.text)),
        "own_secrets": r.array(r.text),
        "own_secret_hosts": r.mapping(r.array(r.text)),
        "upstream": r.nullable(r.text),
        "in_force": r.boolean,
        "pending": r.nullable(r.text),
    }


@dataclass(frozen=True)
class PolicyTestAnswerStep(Record):
    step: Literal["name", "connection", "request", "address"]
    """what is decided, in this order"""
    allowed: bool
    rule: str
    """the rule of the policy, or a code such as `not_allowed`"""
    asked: Literal[True] | None = None
    """a person is asked"""
    address: str | None = None
    """of an `address` step: one that would be dialled"""
    remedy: str | None = None
    """who would have to name that address, and how"""
    _shape: ClassVar[Shape] = {
        "step": r.text,
        "allowed": r.boolean,
        "rule": r.text,
        "asked": r.anything,
        "address": r.text,
        "remedy": r.text,
    }


@dataclass(frozen=True)
class PolicyTestAnswer(Record):
    allowed: bool
    host: str | None
    address: str | None
    port: int
    steps: list[PolicyTestAnswerStep]
    """up to the first refusal; of several addresses one has to be allowed"""
    not_resolved: str | None
    """why no address was judged, where none was; null where every one was"""
    reads_requests: bool
    """TLS to it is read, because a rule has methods or paths"""
    asked: Literal[True] | None = None
    """it is allowed where a person says so"""
    _shape: ClassVar[Shape] = {
        "allowed": r.boolean,
        "host": r.nullable(r.text),
        "address": r.nullable(r.text),
        "port": r.integer,
        "steps": r.array(r.record(PolicyTestAnswerStep)),
        "not_resolved": r.nullable(r.text),
        "reads_requests": r.boolean,
        "asked": r.anything,
    }


@dataclass(frozen=True)
class PolicyLearnAnswerSeen(Record):
    destination: str
    """`host:port`"""
    count: int
    refused: int
    """how many of them were"""
    _shape: ClassVar[Shape] = {
        "destination": r.text,
        "count": r.integer,
        "refused": r.integer,
    }


@dataclass(frozen=True)
class PolicyLearnAnswerLeftOut(Record):
    what: str
    why: str
    _shape: ClassVar[Shape] = {
        "what": r.text,
        "why": r.text,
    }


@dataclass(frozen=True)
class PolicyLearnAnswer(Record):
    policy: Policy
    """the smallest policy under which all that was asked for is allowed"""
    seen: list[PolicyLearnAnswerSeen]
    left_out: list[PolicyLearnAnswerLeftOut]
    _shape: ClassVar[Shape] = {
        "policy": r.record(Policy),
        "seen": r.array(r.record(PolicyLearnAnswerSeen)),
        "left_out": r.array(r.record(PolicyLearnAnswerLeftOut)),
    }


@dataclass(frozen=True)
class PolicyPreset(Record):
    name: str
    summary: str
    hosts: list[str]
    date: str
    """when the list was last gone over"""
    sources: str
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "summary": r.text,
        "hosts": r.array(r.text),
        "date": r.text,
        "sources": r.text,
    }


@dataclass(frozen=True)
class EgressDecision(Record):
    id: int
    time: str
    """RFC 3339, UTC: when it was decided"""
    kind: Literal["dns", "connection", "request"]
    host: str | None
    address: str | None
    port: int | None
    method: str | None
    path: str | None
    """without the query"""
    verdict: Literal["allowed", "denied", "blocked"]
    """`blocked`: a placeholder was on its way to a host that may not have its secret"""
    rule: str
    """the rule that decided, or a code"""
    bytes_up: int | None
    bytes_down: int | None
    duration_ms: float | None
    secrets: list[str]
    """names of secrets that were put in, and of the one whose placeholder was blocked"""
    count: int
    """equal ones that came at once"""
    _shape: ClassVar[Shape] = {
        "id": r.integer,
        "time": r.text,
        "kind": r.text,
        "host": r.nullable(r.text),
        "address": r.nullable(r.text),
        "port": r.nullable(r.integer),
        "method": r.nullable(r.text),
        "path": r.nullable(r.text),
        "verdict": r.text,
        "rule": r.text,
        "bytes_up": r.nullable(r.integer),
        "bytes_down": r.nullable(r.integer),
        "duration_ms": r.nullable(r.number),
        "secrets": r.array(r.text),
        "count": r.integer,
    }


@dataclass(frozen=True)
class EgressDecisions(Record):
    decisions: list[EgressDecision]
    removed_before: int
    """rows with smaller ids were removed to stay in bounds; 0: none were"""
    _shape: ClassVar[Shape] = {
        "decisions": r.array(r.record(EgressDecision)),
        "removed_before": r.integer,
    }


@dataclass(frozen=True)
class Approval(Record):
    id: str
    sandbox: str
    state: Literal["pending", "allowed", "denied", "timed_out", "withdrawn"]
    """`timed_out`: nobody answered; `withdrawn`: nobody waits any more, or a process has ended"""
    host: str | None
    address: str | None
    """where there is no `host`"""
    port: int
    method: str | None
    """of the request that waits; null: a connection does"""
    path: str | None
    """without the query"""
    rule: str
    """the rule of `ask` in the sandbox’s policy"""
    grant: str | PolicyRule
    """the rule that an answer for longer than once adds"""
    asked_at: str
    expires_at: str
    scope: Literal["once", "sandbox", "always"] | None
    reason: str | None
    decided_at: str | None
    decided_by: str | None
    """id of a key, or `operator`; null: nobody"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "sandbox": r.text,
        "state": r.text,
        "host": r.nullable(r.text),
        "address": r.nullable(r.text),
        "port": r.integer,
        "method": r.nullable(r.text),
        "path": r.nullable(r.text),
        "rule": r.text,
        "grant": r.either(r.text, r.record(PolicyRule)),
        "asked_at": r.text,
        "expires_at": r.text,
        "scope": r.nullable(r.text),
        "reason": r.nullable(r.text),
        "decided_at": r.nullable(r.text),
        "decided_by": r.nullable(r.text),
    }


@dataclass(frozen=True)
class StandingApproval(Record):
    id: int
    rule: str | PolicyRule
    decided_at: str
    decided_by: str
    _shape: ClassVar[Shape] = {
        "id": r.integer,
        "rule": r.either(r.text, r.record(PolicyRule)),
        "decided_at": r.text,
        "decided_by": r.text,
    }


@dataclass(frozen=True)
class Secret(Record):
    name: str
    placeholder: str
    """what sandboxes see in the variable of this name"""
    allowed_hosts: list[str]
    surfaces: list[Literal["headers", "query", "path", "body"]]
    """where it is put in"""
    token_url: str | None = None
    """where its value is refreshed; none: it has a fixed one"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "placeholder": r.text,
        "allowed_hosts": r.array(r.text),
        "surfaces": r.array(r.text),
        "token_url": r.text,
    }


@dataclass(frozen=True)
class KeyCreated(Record):
    id: str
    """made by the daemon; no secret"""
    name: str
    owner: str
    scope: Literal["read", "exec", "manage", "admin"]
    created_at: str
    """RFC 3339, UTC"""
    expires_at: str | None
    """RFC 3339, UTC; null: it holds until it is removed"""
    last_used_at: str | None
    """RFC 3339, UTC; null: never; written once a minute"""
    token: str
    """shown this once: whoever has it has the key"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "name": r.text,
        "owner": r.text,
        "scope": r.text,
        "created_at": r.text,
        "expires_at": r.nullable(r.text),
        "last_used_at": r.nullable(r.text),
        "token": r.text,
    }


@dataclass(frozen=True)
class Key(Record):
    id: str
    """made by the daemon; no secret"""
    name: str
    owner: str
    scope: Literal["read", "exec", "manage", "admin"]
    created_at: str
    """RFC 3339, UTC"""
    expires_at: str | None
    """RFC 3339, UTC; null: it holds until it is removed"""
    last_used_at: str | None
    """RFC 3339, UTC; null: never; written once a minute"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "name": r.text,
        "owner": r.text,
        "scope": r.text,
        "created_at": r.text,
        "expires_at": r.nullable(r.text),
        "last_used_at": r.nullable(r.text),
    }


@dataclass(frozen=True)
class Quota(Record):
    sandboxes: int | None
    """sandboxes that exist"""
    memory_mb: int | None
    """the sum of what they may use"""
    cpu: float | None
    """the sum of their processors"""
    disk_mb: int | None
    """the sum of what their writable layers may hold, their snapshots’ files and the sizes of volumes"""
    execs: int | None
    """commands that run at once"""
    _shape: ClassVar[Shape] = {
        "sandboxes": r.nullable(r.integer),
        "memory_mb": r.nullable(r.integer),
        "cpu": r.nullable(r.number),
        "disk_mb": r.nullable(r.integer),
        "execs": r.nullable(r.integer),
    }


@dataclass(frozen=True)
class QuotaUse(Record):
    sandboxes: int
    memory_mb: float
    cpu: float
    disk_mb: float
    execs: int
    _shape: ClassVar[Shape] = {
        "sandboxes": r.integer,
        "memory_mb": r.number,
        "cpu": r.number,
        "disk_mb": r.number,
        "execs": r.integer,
    }


@dataclass(frozen=True)
class KeySelf(Record):
    key: str | None
    """null: you are the operator, by SQUASH_AUTH_TOKEN, socket or connection"""
    name: str | None
    owner: str | None
    scope: Literal["read", "exec", "manage", "admin"]
    expires_at: str | None
    quota: Quota | None
    """of the owner; null for the operator"""
    use: QuotaUse | None
    _shape: ClassVar[Shape] = {
        "key": r.nullable(r.text),
        "name": r.nullable(r.text),
        "owner": r.nullable(r.text),
        "scope": r.text,
        "expires_at": r.nullable(r.text),
        "quota": r.nullable(r.record(Quota)),
        "use": r.nullable(r.record(QuotaUse)),
    }


@dataclass(frozen=True)
class SshKey(Record):
    id: str
    """made by the daemon; no secret"""
    name: str
    owner: str
    scope: Literal["exec", "manage"]
    public_key: str
    """without its comment"""
    fingerprint: str
    """as `ssh-keygen -l` shows it"""
    created_at: str
    """RFC 3339, UTC"""
    expires_at: str | None
    """RFC 3339, UTC; null: it holds until it is removed"""
    last_used_at: str | None
    """RFC 3339, UTC; null: never since the daemon started"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "name": r.text,
        "owner": r.text,
        "scope": r.text,
        "public_key": r.text,
        "fingerprint": r.text,
        "created_at": r.text,
        "expires_at": r.nullable(r.text),
        "last_used_at": r.nullable(r.text),
    }


@dataclass(frozen=True)
class Owner(Record):
    owner: str
    keys: int
    """how many keys it has"""
    quota: Quota
    use: QuotaUse
    _shape: ClassVar[Shape] = {
        "owner": r.text,
        "keys": r.integer,
        "quota": r.record(Quota),
        "use": r.record(QuotaUse),
    }


@dataclass(frozen=True)
class AuditEntryCallerOperator(Record):
    kind: Literal["operator"]
    _shape: ClassVar[Shape] = {
        "kind": r.anything,
    }


@dataclass(frozen=True)
class AuditEntryCallerKey(Record):
    kind: Literal["key"]
    key: str
    name: str
    owner: str
    scope: Literal["read", "exec", "manage", "admin"]
    _shape: ClassVar[Shape] = {
        "kind": r.anything,
        "key": r.text,
        "name": r.text,
        "owner": r.text,
        "scope": r.text,
    }


@dataclass(frozen=True)
class AuditEntryCallerUnknown(Record):
    """nobody whom the daemon knows"""
    kind: Literal["unknown"]
    _shape: ClassVar[Shape] = {
        "kind": r.anything,
    }


@dataclass(frozen=True)
class AuditEntryCallerAgent(Record):
    """of a group, over its channel; such lines are in files of their own"""
    kind: Literal["agent"]
    group: str
    run: int
    _shape: ClassVar[Shape] = {
        "kind": r.anything,
        "group": r.text,
        "run": r.integer,
    }


@dataclass(frozen=True)
class AuditEntryPeer(Record):
    address: str
    """`unix`, or the address that the connection came from"""
    uid: int | None
    """of a client on this machine, where the daemon has asked the kernel"""
    _shape: ClassVar[Shape] = {
        "address": r.text,
        "uid": r.nullable(r.integer),
    }


@dataclass(frozen=True)
class AuditEntry(Record):
    at: str
    """RFC 3339, UTC: when it was answered"""
    request_id: str
    """as in the answer’s header `squash-request-id`"""
    caller: AuditEntryCallerOperator | AuditEntryCallerKey | AuditEntryCallerUnknown | AuditEntryCallerAgent
    peer: AuditEntryPeer
    operation: str | None
    """null: the request reached none"""
    sandbox: str | None
    """as the client named it, 128 characters at most"""
    stage: Literal["whole", "start", "end"]
    """a WebSocket has a line when it begins and one when it ends, all else one"""
    decision: Literal["allowed", "refused", "held"]
    """whether the caller may do that; `held`: a person is asked"""
    code: str | None
    """of the error that was answered"""
    status: int
    duration_ms: float
    action: int | None = None
    """of an agent: its number, as in `group.actions`; null: it has none"""
    rule: str | None = None
    """which rule decided on the action"""
    dropped: int | None = None
    """refusals at the gate since the line before that have no line: there were too many"""
    lost: int | None = None
    """lines since the line before that could not be written"""
    _shape: ClassVar[Shape] = {
        "at": r.text,
        "request_id": r.text,
        "caller": r.one_of("kind", {"operator": AuditEntryCallerOperator, "key": AuditEntryCallerKey, "unknown": AuditEntryCallerUnknown, "agent": AuditEntryCallerAgent}),
        "peer": r.record(AuditEntryPeer),
        "operation": r.nullable(r.text),
        "sandbox": r.nullable(r.text),
        "stage": r.text,
        "decision": r.text,
        "code": r.nullable(r.text),
        "status": r.integer,
        "duration_ms": r.number,
        "action": r.nullable(r.integer),
        "rule": r.text,
        "dropped": r.integer,
        "lost": r.integer,
    }


@dataclass(frozen=True)
class Ticket(Record):
    ticket: str
    """to be sent as `?ticket=`"""
    path: str
    expires_at: str
    """RFC 3339 with milliseconds, UTC"""
    _shape: ClassVar[Shape] = {
        "ticket": r.text,
        "path": r.text,
        "expires_at": r.text,
    }


@dataclass(frozen=True)
class SandboxUsageHistory(Record):
    at: str
    """RFC 3339 with milliseconds, UTC"""
    cpu_us: int | None
    """processor time since the sandbox was started last, in microseconds"""
    cpu_percent: float | None
    """of one processor, since the measurement before; null in the first one"""
    memory_bytes: int | None
    """as the limit counts it, with the cache of its files"""
    pids: int | None
    """processes and threads"""
    disk_bytes: int | None
    """of its writable layer, as measured last"""
    disk_inodes: int | None
    """files in it"""
    network_in_bytes: int | None
    """of connections that have ended, since the egress process began"""
    network_out_bytes: int | None
    """the same towards the world"""
    connections: int | None
    """that were begun, since the egress process began"""
    connections_open: int | None
    """that are open"""
    _shape: ClassVar[Shape] = {
        "at": r.text,
        "cpu_us": r.nullable(r.integer),
        "cpu_percent": r.nullable(r.number),
        "memory_bytes": r.nullable(r.integer),
        "pids": r.nullable(r.integer),
        "disk_bytes": r.nullable(r.integer),
        "disk_inodes": r.nullable(r.integer),
        "network_in_bytes": r.nullable(r.integer),
        "network_out_bytes": r.nullable(r.integer),
        "connections": r.nullable(r.integer),
        "connections_open": r.nullable(r.integer),
    }


@dataclass(frozen=True)
class SandboxUsage(Record):
    at: str
    """RFC 3339 with milliseconds, UTC"""
    cpu_us: int | None
    """processor time since the sandbox was started last, in microseconds"""
    cpu_percent: float | None
    """of one processor, since the measurement before; null in the first one"""
    memory_bytes: int | None
    """as the limit counts it, with the cache of its files"""
    pids: int | None
    """processes and threads"""
    disk_bytes: int | None
    """of its writable layer, as measured last"""
    disk_inodes: int | None
    """files in it"""
    network_in_bytes: int | None
    """of connections that have ended, since the egress process began"""
    network_out_bytes: int | None
    """the same towards the world"""
    connections: int | None
    """that were begun, since the egress process began"""
    connections_open: int | None
    """that are open"""
    cpu_limit: float
    """processors it may use"""
    memory_limit_bytes: int
    pids_limit: int
    disk_limit_bytes: int
    disk_limit_inodes: int
    history: list[SandboxUsageHistory]
    """of the last ten minutes, oldest first; every five seconds while it is used or asked for"""
    _shape: ClassVar[Shape] = {
        "at": r.text,
        "cpu_us": r.nullable(r.integer),
        "cpu_percent": r.nullable(r.number),
        "memory_bytes": r.nullable(r.integer),
        "pids": r.nullable(r.integer),
        "disk_bytes": r.nullable(r.integer),
        "disk_inodes": r.nullable(r.integer),
        "network_in_bytes": r.nullable(r.integer),
        "network_out_bytes": r.nullable(r.integer),
        "connections": r.nullable(r.integer),
        "connections_open": r.nullable(r.integer),
        "cpu_limit": r.number,
        "memory_limit_bytes": r.integer,
        "pids_limit": r.integer,
        "disk_limit_bytes": r.integer,
        "disk_limit_inodes": r.integer,
        "history": r.array(r.record(SandboxUsageHistory)),
    }


@dataclass(frozen=True)
class Event(Record):
    id: int
    """grows and is never used again"""
    at: str
    """RFC 3339 with milliseconds, UTC"""
    type: Literal["sandbox.created", "sandbox.updated", "sandbox.paused", "sandbox.resumed", "sandbox.stopped", "sandbox.restarted", "sandbox.failed", "sandbox.timed_out", "sandbox.destroyed", "snapshot.created", "snapshot.removed", "snapshot.updated", "mount.attached", "mount.detached", "approval.requested", "approval.decided", "action.held", "action.decided"]
    sandbox: str
    """its id, which may be another sandbox’s by now; empty: what it tells of has none any more"""
    owner: str
    data: dict[str, str | float | bool | None]
    """what there is to say beside that, by type"""
    _shape: ClassVar[Shape] = {
        "id": r.integer,
        "at": r.text,
        "type": r.text,
        "sandbox": r.text,
        "owner": r.text,
        "data": r.mapping(r.nullable(r.anything)),
    }


@dataclass(frozen=True)
class WebhookMade(Record):
    id: str
    url: str
    types: list[Literal["sandbox.created", "sandbox.updated", "sandbox.paused", "sandbox.resumed", "sandbox.stopped", "sandbox.restarted", "sandbox.failed", "sandbox.timed_out", "sandbox.destroyed", "snapshot.created", "snapshot.removed", "snapshot.updated", "mount.attached", "mount.detached", "approval.requested", "approval.decided", "action.held", "action.decided"]]
    owner: str | None
    enabled: bool
    created_at: str
    pending: int
    """events that are to be delivered"""
    last_success_at: str | None
    last_failure_at: str | None
    last_error: str | None
    """of the last try; null: it was taken"""
    next_attempt_at: str | None
    """null: nothing failed, or nothing is tried any more"""
    given_up: int
    """events that were never taken, and are not tried any more"""
    missed_before: int | None
    """events with smaller ids may have been removed before they could be delivered"""
    secret: str
    """signs what is sent; it is told here and never again"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "url": r.text,
        "types": r.array(r.text),
        "owner": r.nullable(r.text),
        "enabled": r.boolean,
        "created_at": r.text,
        "pending": r.integer,
        "last_success_at": r.nullable(r.text),
        "last_failure_at": r.nullable(r.text),
        "last_error": r.nullable(r.text),
        "next_attempt_at": r.nullable(r.text),
        "given_up": r.integer,
        "missed_before": r.nullable(r.integer),
        "secret": r.text,
    }


@dataclass(frozen=True)
class Webhook(Record):
    id: str
    url: str
    types: list[Literal["sandbox.created", "sandbox.updated", "sandbox.paused", "sandbox.resumed", "sandbox.stopped", "sandbox.restarted", "sandbox.failed", "sandbox.timed_out", "sandbox.destroyed", "snapshot.created", "snapshot.removed", "snapshot.updated", "mount.attached", "mount.detached", "approval.requested", "approval.decided", "action.held", "action.decided"]]
    owner: str | None
    enabled: bool
    created_at: str
    pending: int
    """events that are to be delivered"""
    last_success_at: str | None
    last_failure_at: str | None
    last_error: str | None
    """of the last try; null: it was taken"""
    next_attempt_at: str | None
    """null: nothing failed, or nothing is tried any more"""
    given_up: int
    """events that were never taken, and are not tried any more"""
    missed_before: int | None
    """events with smaller ids may have been removed before they could be delivered"""
    _shape: ClassVar[Shape] = {
        "id": r.text,
        "url": r.text,
        "types": r.array(r.text),
        "owner": r.nullable(r.text),
        "enabled": r.boolean,
        "created_at": r.text,
        "pending": r.integer,
        "last_success_at": r.nullable(r.text),
        "last_failure_at": r.nullable(r.text),
        "last_error": r.nullable(r.text),
        "next_attempt_at": r.nullable(r.text),
        "given_up": r.integer,
        "missed_before": r.nullable(r.integer),
    }


@dataclass(frozen=True)
class WebhookTest(Record):
    delivered: bool
    status: int | None
    """of the answer; null: there was none"""
    error: str | None
    duration_ms: float
    _shape: ClassVar[Shape] = {
        "delivered": r.boolean,
        "status": r.nullable(r.integer),
        "error": r.nullable(r.text),
        "duration_ms": r.number,
    }


@dataclass(frozen=True)
class TierMessage(Record):
    """saying something in a chat"""
    own: Literal["allow", "hold", "deny"]
    others: Literal["allow", "hold", "deny"]
    _shape: ClassVar[Shape] = {
        "own": r.text,
        "others": r.text,
    }


@dataclass(frozen=True)
class TierSchedule(Record):
    """making schedules in a chat; pausing, resuming and removing those that its agents made there"""
    own: Literal["allow", "hold", "deny"]
    others: Literal["allow", "hold", "deny"]
    _shape: ClassVar[Shape] = {
        "own": r.text,
        "others": r.text,
    }


@dataclass(frozen=True)
class Tier(Record):
    message: TierMessage
    """saying something in a chat"""
    start: TierMessage
    """starting a run, by a message to a chat’s group"""
    read: TierMessage
    """seeing groups, chats, runs and what was said"""
    create: Literal["allow", "hold", "deny"]
    """making groups and chats"""
    create_tiers: list[str]
    """the tiers that groups made by agents may have; none: agents make no groups"""
    schedule: TierSchedule
    """making schedules in a chat; pausing, resuming and removing those that its agents made there"""
    schedule_every_s_min: int
    """the least time between two times of such a schedule, and before one that comes once"""
    reach: list[str]
    """what its groups’ sandboxes may connect to at most; none: nothing"""
    secrets: Literal["all"] | list[str]
    """which secrets its groups’ sandboxes may use at most"""
    mounts: Literal["none", "ro", "rw"]
    """how its groups may have directories of the host, of those that are listed"""
    global_memory: Literal["none", "ro", "rw"]
    """how its groups’ runs have `/workspace/global`, the memory that all groups share"""
    runs_max: int
    """runs at once, of all its groups"""
    priority: int
    """whose runs begin first where several wait; a run that waits counts one more each minute"""
    timeout_s: int
    """a run of a group that says nothing else is ended when it takes longer"""
    idle_timeout_s: int
    """… and when neither output nor an action came for so long"""
    warm_s: int
    """so long the sandbox of a run that ended well is kept for the next run of its chat; 0: each run has a fresh one"""
    name: str
    built_in: bool
    _shape: ClassVar[Shape] = {
        "message": r.record(TierMessage),
        "start": r.record(TierMessage),
        "read": r.record(TierMessage),
        "create": r.text,
        "create_tiers": r.array(r.text),
        "schedule": r.record(TierSchedule),
        "schedule_every_s_min": r.integer,
        "reach": r.array(r.text),
        "secrets": r.either(r.anything, r.array(r.text)),
        "mounts": r.text,
        "global_memory": r.text,
        "runs_max": r.integer,
        "priority": r.integer,
        "timeout_s": r.integer,
        "idle_timeout_s": r.integer,
        "warm_s": r.integer,
        "name": r.text,
        "built_in": r.boolean,
    }


@dataclass(frozen=True)
class GroupMount(Record):
    host: str
    """a directory of the host that the operator’s host-directories.json allows"""
    path: str
    """where it is seen"""
    mode: Literal["ro", "rw"]
    _shape: ClassVar[Shape] = {
        "host": r.text,
        "path": r.text,
        "mode": r.text,
    }


@dataclass(frozen=True)
class Group(Record):
    name: str
    tier: str
    command: list[str]
    """run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input"""
    profile: Literal["nanoclaw-v1", "nanoclaw-v2"] | None
    """the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash"""
    layers: list[str]
    image: str | None
    """an OCI image that was pulled, below the layers"""
    env: dict[str, str]
    reach: list[str]
    """what its sandboxes may connect to, of what the tier allows"""
    secrets: list[str]
    """which secrets they may use, of what the tier allows"""
    mounts: list[GroupMount]
    """directories of the host that its runs have, as far as the tier and host-directories.json allow it"""
    memory_mb: int | None
    cpu: float | None
    """processors; null: the daemon’s default"""
    backend: Literal["chroot", "vm"] | None
    """what isolates its runs; `vm`: a kernel of their own; null: as SQUASH_BACKEND says"""
    timeout_s: int | None
    """a run that takes longer is ended; null: as the tier says"""
    idle_timeout_s: int | None
    """a run is ended when neither output nor an action came for so long; null: as the tier says"""
    output_bytes_max: int
    """what of a run’s output is told"""
    session_mb: int
    """what the session of each of its chats may take, where this host can hold it to that"""
    volume: str | None
    """its folder; null: no run has had one yet"""
    created_at: str
    created_by: str | None
    """the group whose agent made it; null: a client of the API"""
    queued: int
    """runs that wait"""
    running: int
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "tier": r.text,
        "command": r.array(r.text),
        "profile": r.nullable(r.text),
        "layers": r.array(r.text),
        "image": r.nullable(r.text),
        "env": r.mapping(r.text),
        "reach": r.array(r.text),
        "secrets": r.array(r.text),
        "mounts": r.array(r.record(GroupMount)),
        "memory_mb": r.nullable(r.integer),
        "cpu": r.nullable(r.number),
        "backend": r.nullable(r.text),
        "timeout_s": r.nullable(r.integer),
        "idle_timeout_s": r.nullable(r.integer),
        "output_bytes_max": r.integer,
        "session_mb": r.integer,
        "volume": r.nullable(r.text),
        "created_at": r.text,
        "created_by": r.nullable(r.text),
        "queued": r.integer,
        "running": r.integer,
    }


@dataclass(frozen=True)
class GroupRun(Record):
    run: int
    group: str
    chat: str
    state: Literal["queued", "running", "done", "failed"]
    attempt: int
    """1: the first"""
    reason: str | None
    """why the last attempt failed, or what it waits for"""
    exit_code: int | None
    sandbox: str | None
    """while it has one"""
    warm: bool
    """an earlier run of the chat was in its sandbox"""
    warm_until: str | None
    """it is over and its sandbox is kept so long, for the next run of the chat"""
    output_bytes: int
    """told, of its standard output"""
    truncated: bool
    """it printed more"""
    depth: int
    """runs that started it, one the other"""
    created_at: str
    started_at: str | None
    finished_at: str | None
    _shape: ClassVar[Shape] = {
        "run": r.integer,
        "group": r.text,
        "chat": r.text,
        "state": r.text,
        "attempt": r.integer,
        "reason": r.nullable(r.text),
        "exit_code": r.nullable(r.integer),
        "sandbox": r.nullable(r.text),
        "warm": r.boolean,
        "warm_until": r.nullable(r.text),
        "output_bytes": r.integer,
        "truncated": r.boolean,
        "depth": r.integer,
        "created_at": r.text,
        "started_at": r.nullable(r.text),
        "finished_at": r.nullable(r.text),
    }


@dataclass(frozen=True)
class GroupAction(Record):
    number: int
    id: str
    """the agent’s"""
    action: Literal["message.send", "run.start", "group.create", "chat.create", "schedule.create", "schedule.pause", "schedule.resume", "schedule.remove"]
    group: str
    """whose agent asks"""
    run: int
    request: dict[str, object]
    """all of what it asks for"""
    state: Literal["done", "held", "denied", "failed"]
    rule: str
    """what decided"""
    reason: str | None
    """a person’s word, or why it failed"""
    asked_at: str
    decided_at: str | None
    _shape: ClassVar[Shape] = {
        "number": r.integer,
        "id": r.text,
        "action": r.text,
        "group": r.text,
        "run": r.integer,
        "request": r.mapping(r.anything),
        "state": r.text,
        "rule": r.text,
        "reason": r.nullable(r.text),
        "asked_at": r.text,
        "decided_at": r.nullable(r.text),
    }


@dataclass(frozen=True)
class Chat(Record):
    name: str
    group: str
    trigger: str | None
    """what a message begins with that starts a run; null: any does"""
    senders: Literal["*"] | list[str]
    """who may start runs; `*`: everybody"""
    others: Literal["context", "drop"]
    """what becomes of other senders’ messages: the next run reads them, or they are not stored"""
    session: str | None
    """the volume of what its agent keeps for it alone; null: no run has had one yet"""
    created_at: str
    waiting: int
    """messages that no run has had"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "group": r.text,
        "trigger": r.nullable(r.text),
        "senders": r.either(r.anything, r.array(r.text)),
        "others": r.text,
        "session": r.nullable(r.text),
        "created_at": r.text,
        "waiting": r.integer,
    }


@dataclass(frozen=True)
class ChatMessageTaken(Record):
    verdict: Literal["starts", "context", "dropped"]
    """`starts`: a run has it; `context`: the next run reads it along; `dropped`: not stored"""
    reason: str
    """the rule that decided"""
    message: int | None
    """its number; null: it was dropped"""
    run: int | None
    """the run that waits for its turn"""
    _shape: ClassVar[Shape] = {
        "verdict": r.text,
        "reason": r.text,
        "message": r.nullable(r.integer),
        "run": r.nullable(r.integer),
    }


@dataclass(frozen=True)
class ChatSaid(Record):
    message: int
    """its number: what `after` goes on behind"""
    chat: str
    text: str
    by: str
    """the group that says it"""
    run: int
    action: str | None
    """the agent’s id of the action; null: its command printed it"""
    at: str
    _shape: ClassVar[Shape] = {
        "message": r.integer,
        "chat": r.text,
        "text": r.text,
        "by": r.text,
        "run": r.integer,
        "action": r.nullable(r.text),
        "at": r.text,
    }


@dataclass(frozen=True)
class Schedule(Record):
    name: str
    chat: str
    group: str
    text: str
    cron: str | None
    time_zone: str | None
    every_s: int | None
    at: str | None
    context: Literal["group", "isolated"]
    """`group`: its run has all that waits in the chat; `isolated`: the prompt alone"""
    missed: Literal["run_once", "skip"]
    """what becomes of times that passed while there was no daemon"""
    state: Literal["active", "paused", "done"]
    """`done`: no time is to come"""
    next_at: str | None
    last_run: int | None
    made_by: str | None
    """the group whose agent made it; null: a client of the API"""
    paused_by: str | None
    """the group whose agent paused it; null: a client of the API"""
    created_at: str
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "chat": r.text,
        "group": r.text,
        "text": r.text,
        "cron": r.nullable(r.text),
        "time_zone": r.nullable(r.text),
        "every_s": r.nullable(r.integer),
        "at": r.nullable(r.text),
        "context": r.text,
        "missed": r.text,
        "state": r.text,
        "next_at": r.nullable(r.text),
        "last_run": r.nullable(r.integer),
        "made_by": r.nullable(r.text),
        "paused_by": r.nullable(r.text),
        "created_at": r.text,
    }


@dataclass(frozen=True)
class ScheduleRun(Record):
    due_at: str
    """the time of the schedule"""
    at: str
    """when it was decided"""
    verdict: Literal["started", "skipped", "refused"]
    """`skipped`: missed, or the run before still went on; `refused`: by tier or limit"""
    reason: str | None
    """null: it came in time"""
    run: int | None
    state: Literal["queued", "running", "done", "failed"] | None
    """of the run; null: there is none, or it is no longer kept"""
    _shape: ClassVar[Shape] = {
        "due_at": r.text,
        "at": r.text,
        "verdict": r.text,
        "reason": r.nullable(r.text),
        "run": r.nullable(r.integer),
        "state": r.nullable(r.text),
    }


@dataclass(frozen=True)
class DaemonInfoListen(Record):
    host: str
    port: int
    _shape: ClassVar[Shape] = {
        "host": r.text,
        "port": r.integer,
    }


@dataclass(frozen=True)
class DaemonInfoSsh(Record):
    host: str
    port: int
    fingerprint: str
    """of its host key, as `ssh` shows it"""
    _shape: ClassVar[Shape] = {
        "host": r.text,
        "port": r.integer,
        "fingerprint": r.text,
    }


@dataclass(frozen=True)
class Capability(Record):
    name: str
    """stable identifier, such as `user_namespaces` or `cgroup_memory`"""
    state: Literal["ok", "weaker", "missing"]
    """`weaker`: Squash works with something lesser; `missing`: it works without, or not at all"""
    required: bool
    """without it no sandbox starts"""
    found: str
    """what the host offers, in words"""
    choice: str
    """what Squash does with it"""
    weaker: str | None
    """what is lost by it; null where nothing is"""
    remedy: str | None
    """the command that mends it; null where nothing can or need be done"""
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "state": r.text,
        "required": r.boolean,
        "found": r.text,
        "choice": r.text,
        "weaker": r.nullable(r.text),
        "remedy": r.nullable(r.text),
    }


@dataclass(frozen=True)
class DaemonProblem(Record):
    code: Literal["disk_low", "memory_low", "upper_errors", "launcher_unavailable", "launcher_outdated", "helper_unavailable", "egress_unavailable", "policy_pending", "upstream_beside_daemon", "removal_pending", "save_pending", "audit_failing", "bucket_unavailable", "bucket_conflict"]
    message: str
    """what it means, and what would mend it"""
    _shape: ClassVar[Shape] = {
        "code": r.text,
        "message": r.text,
    }


@dataclass(frozen=True)
class DaemonInfoRoomMemory(Record):
    total: int
    """bytes"""
    available: int
    """bytes to be had now"""
    kept: int
    """below so many available bytes a create is refused"""
    promised: float
    """the sum of what each sandbox may take"""
    promised_max: float | None
    """a create beyond it is refused; null: promises are not counted"""
    _shape: ClassVar[Shape] = {
        "total": r.integer,
        "available": r.integer,
        "kept": r.integer,
        "promised": r.number,
        "promised_max": r.nullable(r.number),
    }


@dataclass(frozen=True)
class DaemonInfoRoomCpu(Record):
    total: int
    """processors"""
    promised: float
    """the sum of what each sandbox may take"""
    promised_max: float | None
    """a create beyond it is refused; null: promises are not counted"""
    _shape: ClassVar[Shape] = {
        "total": r.integer,
        "promised": r.number,
        "promised_max": r.nullable(r.number),
    }


@dataclass(frozen=True)
class DaemonInfoRoom(Record):
    """what the host has for sandboxes, now"""
    memory: DaemonInfoRoomMemory
    cpu: DaemonInfoRoomCpu
    disk: DaemonInfoRoomMemory
    _shape: ClassVar[Shape] = {
        "memory": r.record(DaemonInfoRoomMemory),
        "cpu": r.record(DaemonInfoRoomCpu),
        "disk": r.record(DaemonInfoRoomMemory),
    }


@dataclass(frozen=True)
class DaemonInfoConfig(Record):
    name: str
    value: str
    """a secret is [redacted]"""
    source: Literal["environment", ".env", "default"]
    meaning: str
    _shape: ClassVar[Shape] = {
        "name": r.text,
        "value": r.text,
        "source": r.text,
        "meaning": r.text,
    }


@dataclass(frozen=True)
class DaemonInfo(Record):
    version: str
    api: Literal[1]
    pid: int
    started: str
    """RFC 3339, UTC"""
    node: str
    backend: Literal["chroot", "vm"]
    """what a new sandbox gets that asks for none"""
    data_dir: str
    socket: str
    """path of the Unix socket"""
    listen: DaemonInfoListen | None
    """null: Unix socket only"""
    ssh: DaemonInfoSsh | None
    """the SSH gateway; null: there is none"""
    auth: bool
    """true when TCP asks for a token"""
    host: list[Capability]
    """what was found out about this host when the daemon started"""
    problems: list[DaemonProblem]
    """what does not work as it should, now"""
    room: DaemonInfoRoom
    """what the host has for sandboxes, now"""
    config: list[DaemonInfoConfig]
    _shape: ClassVar[Shape] = {
        "version": r.text,
        "api": r.anything,
        "pid": r.integer,
        "started": r.text,
        "node": r.text,
        "backend": r.text,
        "data_dir": r.text,
        "socket": r.text,
        "listen": r.nullable(r.record(DaemonInfoListen)),
        "ssh": r.nullable(r.record(DaemonInfoSsh)),
        "auth": r.boolean,
        "host": r.array(r.record(Capability)),
        "problems": r.array(r.record(DaemonProblem)),
        "room": r.record(DaemonInfoRoom),
        "config": r.array(r.record(DaemonInfoConfig)),
    }
