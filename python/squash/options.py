"""What methods take as keyword arguments, for type checkers only. Written by tools/python-sdk.ts from contract/openapi.json.

Names are those of the wire; the words of Python's own have an underscore behind them (`from_`, `as_`).
"""

from __future__ import annotations

from typing import Literal, Mapping, Sequence, TypedDict


class SandboxCreateFromLayers(TypedDict):
    layers: Sequence[str]
    """module names; the numbers they begin with say which lies on which"""


class _SandboxCreateFromSandbox(TypedDict):
    sandbox: str


class SandboxCreateFromSandbox(_SandboxCreateFromSandbox, total=False):
    snapshot: str
    """none: its files as they are now, while it runs"""


class _SandboxCreateFromHostHostUser(TypedDict):
    name: str
    home: str


class SandboxCreateFromHostHostUser(_SandboxCreateFromHostHostUser, total=False):
    shell: str


class _SandboxCreateFromHostHost(TypedDict):
    paths: Mapping[str, Literal["hidden", "deny", "mask", "ro", "cow", "rw"]]
    """path of the host → level: `hidden`, `deny`, `ro`, `cow` (writes stay in the sandbox), `rw` or `mask`. The longest path wins; what none names is hidden"""
    user: SandboxCreateFromHostHostUser
    """who commands run as: the user whose daemon this is, as on the host"""


class SandboxCreateFromHostHost(_SandboxCreateFromHostHost, total=False):
    masks: Mapping[str, str]
    """what a file of level `mask` holds, by its path"""
    sockets: Sequence[str]
    """Unix sockets of the host that are reached at their paths, in a hidden directory as well. A rule for the same path decides; those of container engines are refused"""
    devices: Sequence[str]
    """character devices of the host below `/dev`. A rule for the same path decides; disks, memory, networks, terminals and keyboards are refused"""
    when_unused: Literal["keep", "stop", "destroy"]
    """what becomes of it some seconds after its last command ended. A command of a stream whose client is gone does not count"""
    trace_paths: bool
    """note which paths its programs are refused (`sandbox.paths`). Each call with a path takes some microseconds more"""
    nesting: bool
    """its programs may make user namespaces of their own, and the others in them: for a sandbox inside the sandbox. More of the kernel is reached"""
    work: str
    """a path of level `cow`: `when_unused: 'stop'` destroys a sandbox that wrote nothing there"""


class SandboxCreateFromHost(TypedDict):
    host: SandboxCreateFromHostHost
    """the host’s file system through rules; only for callers of scope `admin`, where the daemon offers it (`SQUASH_HOST_ROOT`)"""


class _PolicyRuleWish(TypedDict):
    to: str | Sequence[str]
    """destinations: `host`, `*.host`, an address, a range, `*`, `preset:name`; each but the last with `:port`"""


class PolicyRuleWish(_PolicyRuleWish, total=False):
    ports: Sequence[int | str]
    """443 or '8000-8999'; for destinations that name no port"""
    methods: Sequence[str]
    """HTTP methods"""
    paths: Sequence[str]
    """HTTP paths, each with everything below it: `/v1` is `/v1` and `/v1/…`"""
    upgrades: Sequence[str]
    """protocols that a request may change to where methods or paths are looked at, such as `websocket`; what follows is no request"""


class PolicyChange(TypedDict, total=False):
    allow: Sequence[str | PolicyRuleWish]
    """default `['*']`, every public host and address; an empty list or `['none']`: nothing"""
    deny: Sequence[str | PolicyRuleWish]
    """always wins"""
    ask: Sequence[str | PolicyRuleWish]
    """a person is asked, while the connection or request waits; a rule of `allow` spares the question where it is as narrow or narrower"""
    dns: Literal["refuse", "nxdomain"]
    """`refuse`: a name that is not allowed gets an address, and connections to it a refusal that says why; `nxdomain`: it does not exist"""
    ask_timeout_ms: int
    """how long is waited for a person, default 60000"""


class _SandboxCreateOwnSecrets(TypedDict):
    value: str
    """write-only"""
    allowed_hosts: Sequence[str]
    """`host`, `*.host`, an address, each with an optional `:port`"""


class SandboxCreateOwnSecrets(_SandboxCreateOwnSecrets, total=False):
    surfaces: Sequence[Literal["headers", "query", "path", "body"]]
    """default: headers, also inside `Authorization: Basic`"""


class MountWishPathsMask(TypedDict):
    mask: str
    """the text that stands in the file’s place"""


class _MountWish(TypedDict):
    path: str
    """where it is seen in the sandbox; made where it is missing"""


class MountWish(_MountWish, total=False):
    volume: str
    """name or id of a volume"""
    host: str
    """a directory of the host that the operator’s host-directories.json allows"""
    mode: Literal["ro", "cow", "rw"]
    """none: rw for a volume, ro for a directory of the host. `cow`, of such a directory: what is written stays in the sandbox"""
    paths: Mapping[str, Literal["hidden", "deny", "ro", "cow", "rw"] | MountWishPathsMask]
    """of a directory of the host: path in it → level: `hidden`, `deny`, `ro`, `cow`, `rw`, or `{'mask': TEXT}`. The longest path wins"""


class SandboxCreateOptions(TypedDict, total=False):
    name: str
    """for people; need not be unique"""
    owner: str
    """default: the key’s"""
    labels: Mapping[str, str]
    """whatever the client wants to find it by"""
    env: Mapping[str, str]
    """variables of every command"""
    from_: SandboxCreateFromLayers | SandboxCreateFromSandbox | SandboxCreateFromHost
    """none: the base layer"""
    cpu: float
    """processors"""
    memory_mb: int
    """MiB"""
    processes_max: int
    """processes and threads at once; none: 1024, or as the sandbox that it is made from"""
    lifetime_s: int | None
    """seconds from the create, or from the last change of it; null: no end"""
    idle_timeout_s: int | None
    """seconds without a command that somebody waits for, output, files, ports or work; null: none"""
    on_timeout: Literal["destroy", "pause", "snapshot"]
    """when lifetime or idle time is over. `pause`: it stands still and keeps its memory; `snapshot`: its files are saved as a snapshot and its processes end"""
    policy: PolicyChange
    """what it may reach; none: everything public; an empty `allow`: nothing"""
    secrets: Sequence[str]
    """names of the secrets of the installation it may use; none: all"""
    own_secrets: Mapping[str, SandboxCreateOwnSecrets]
    """secrets of this sandbox alone, by name"""
    upstream: str
    """name of the operator’s proxy that it goes out through; none: `default`, where there is one"""
    image: str
    """an OCI image as its lowest layers; `from.layers` may lie above. Callers below `admin` get images that are here already"""
    mounts: Sequence[MountWish]
    """volumes and directories of the host that it has from its start on"""
    backend: Literal["chroot", "vm"]
    """what isolates it; none: as the sandbox that it is made from, else as SQUASH_BACKEND says"""
    memory: bool
    """with `from.sandbox`, a microVM in QEMU: the new one goes on with the processes of the other, from its memory and on its disk as they are now; with `from.snapshot`, which was taken with `memory`: as they were then"""


class SandboxListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    state: str
    """one or more, separated by commas"""
    label: str
    """`key=value` or `key`, separated by commas: all of them"""
    name: str
    owner: str


SandboxCreate = TypedDict(
    "SandboxCreate",
    {
        "name": "str",
        "owner": "str",
        "labels": "Mapping[str, str]",
        "env": "Mapping[str, str]",
        "from": "SandboxCreateFromLayers | SandboxCreateFromSandbox | SandboxCreateFromHost",
        "cpu": "float",
        "memory_mb": "int",
        "processes_max": "int",
        "lifetime_s": "int | None",
        "idle_timeout_s": "int | None",
        "on_timeout": "Literal[\"destroy\", \"pause\", \"snapshot\"]",
        "policy": "PolicyChange",
        "secrets": "Sequence[str]",
        "own_secrets": "Mapping[str, SandboxCreateOwnSecrets]",
        "upstream": "str",
        "image": "str",
        "mounts": "Sequence[MountWish]",
        "backend": "Literal[\"chroot\", \"vm\"]",
        "memory": "bool",
    },
    total=False,
)


class ProcessExecUserUid(TypedDict):
    uid: int
    gid: int


class ProcessExec(TypedDict, total=False):
    argv: Sequence[str]
    """argv[0] is looked up in PATH inside the sandbox; no shell"""
    shell: str
    """run by /bin/sh -c; either this or `argv`"""
    env: Mapping[str, str]
    """added to the sandbox default environment"""
    cwd: str
    """none: the image’s, else /"""
    user: int | ProcessExecUserUid | str
    """a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0"""
    tag: str
    """a name of the caller’s own; `tag:NAME` finds the latest process of it"""
    output_bytes_max: int
    """output that is kept, of both streams together"""
    stdin: str
    """standard input, whole; it ends behind it"""
    stdin_base64: str
    """the same for bytes that are no text"""
    timeout_ms: int
    keep: Literal["head", "tail"]
    """which end of longer output is kept"""
    encoding: Literal["text", "base64"]
    """`text`: bytes that are no UTF-8 become U+FFFD"""


class SandboxRunOptions(TypedDict, total=False):
    sandbox: SandboxCreate


class SandboxUpdateOptions(TypedDict, total=False):
    name: str | None
    labels: Mapping[str, str | None]
    """each is set, or with null removed; the others stay"""
    env: Mapping[str, str]
    """replaces all; of commands that start from now on"""
    cpu: float
    """processors"""
    memory_mb: int
    """MiB"""
    lifetime_s: int | None
    """seconds from the create, or from the last change of it; null: no end"""
    idle_timeout_s: int | None
    """seconds without a command that somebody waits for, output, files, ports or work; null: none"""
    on_timeout: Literal["destroy", "pause", "snapshot"]
    """when lifetime or idle time is over. `pause`: it stands still and keeps its memory; `snapshot`: its files are saved as a snapshot and its processes end"""
    policy: PolicyChange
    """replaces it, as PUT …/policy does"""


class SandboxDestroyOptions(TypedDict, total=False):
    unsaved: Literal["refuse", "aside"]
    """what becomes of one that ephemeral mode can not save; aside (scope admin): it is removed, and its directory kept as unsaved/ID.… in the data directory"""


class SandboxPauseOptions(TypedDict, total=False):
    keep: Literal["memory", "files"]


class ProcessExecOptions(TypedDict, total=False):
    env: Mapping[str, str]
    """added to the sandbox default environment"""
    cwd: str
    """none: the image’s, else /"""
    user: int | ProcessExecUserUid | str
    """a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0"""
    tag: str
    """a name of the caller’s own; `tag:NAME` finds the latest process of it"""
    output_bytes_max: int
    """output that is kept, of both streams together"""
    stdin: str
    """standard input, whole; it ends behind it"""
    stdin_base64: str
    """the same for bytes that are no text"""
    timeout_ms: int
    keep: Literal["head", "tail"]
    """which end of longer output is kept"""
    encoding: Literal["text", "base64"]
    """`text`: bytes that are no UTF-8 become U+FFFD"""


class _ProcessStartPty(TypedDict):
    rows: int
    columns: int


class ProcessStartPty(_ProcessStartPty, total=False):
    term: str


class ProcessStartOptions(TypedDict, total=False):
    env: Mapping[str, str]
    """added to the sandbox default environment"""
    cwd: str
    """none: the image’s, else /"""
    user: int | ProcessExecUserUid | str
    """a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0"""
    tag: str
    """a name of the caller’s own; `tag:NAME` finds the latest process of it"""
    output_bytes_max: int
    """output that is kept, of both streams together"""
    stdin: bool
    """keep standard input open for `process.stdin`; without it, it is empty"""
    pty: ProcessStartPty
    """give it a terminal, which takes input as well"""
    timeout_ms: int
    """none: it runs until it ends"""
    keep: Literal["head", "tail"]
    """which end of longer output is kept"""


class ProcessListOptions(TypedDict, total=False):
    state: Literal["running", "ended"]
    """only these"""
    tag: str
    """only those with this tag"""
    limit: int
    """at most so many, default 100"""


class ProcessOutputOptions(TypedDict, total=False):
    follow: bool
    """`false`: only what is kept now; default `true`"""
    streams: Literal["stdout", "stderr"]
    """only this one"""
    stall: bool
    """`true`: the process waits while this reader is 64 KiB behind; needs the scope `exec`"""


class ProcessStdinOptions(TypedDict, total=False):
    eof: bool
    """`true`: nothing comes behind it; to a terminal ^D is sent"""


class ProcessWaitOptions(TypedDict, total=False):
    after: int
    """for `log`: only output behind this position, default 0: what is kept counts"""
    timeout_ms: int
    """default 60,000"""


class ContextCreateOptions(TypedDict, total=False):
    context: str
    """its name; without one the daemon makes one"""
    env: Mapping[str, str]
    """added to the sandbox default environment"""
    cwd: str
    """none: the image’s, else /"""
    user: int | ProcessExecUserUid | str
    """a uid (which is the gid as well), or both, or a name; without it 0"""


class ContextRunOptions(TypedDict, total=False):
    timeout_ms: int
    """then the cell is interrupted, and its kernel ended where that does not help"""


class FileReadOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""


class FileWriteOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    mode: str
    """octal, such as '644'"""
    uid: int
    gid: int
    parents: bool
    """`true`: make the directories that are missing"""
    append: bool
    offset: int
    truncate: bool


class FileChangeOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    mode: str
    """octal, such as '644'"""
    uid: int
    gid: int
    size: int
    """it is cut, or lengthened with zeros; of one file, without `recursive`"""
    modified_at: str
    """when it was last changed; RFC 3339, UTC; of one file, without `recursive`"""
    recursive: bool


class FileRemoveOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    recursive: bool
    """`true`: with everything in it"""


class FileStatOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    follow: bool
    """`true`: what a symlink names, not the link"""


class FileListOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    limit: int
    """at most so many, default 100"""
    depth: int
    """1, the default: the directory itself"""


class FileGlobOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    limit: int
    """at most so many, default 100"""


class FileSearchOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    regex: bool
    """`true`: `text` is a POSIX extended regular expression"""
    ignore_case: bool
    """`true`: of ASCII letters"""
    pattern: str
    """`*` and `?` within a name, `**` for any number of directories, `[a-z]`, `{a,b}`; a leading dot must be written"""
    limit: int
    """at most so many, default 100"""


class FileMakeDirectoryPathBase64(TypedDict):
    base64: str


class FileMakeDirectoryOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    mode: str
    """octal, such as '644'"""
    uid: int
    gid: int
    parents: bool


class FileMoveOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    parents: bool
    overwrite: bool
    """`false`: only where nothing stands at `to`"""


class FileCopyOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    parents: bool
    overwrite: bool
    """`false`: only where nothing stands at `to`"""
    recursive: bool


class FileLinkOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    hard: bool
    parents: bool


class FileWatchOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    recursive: bool


class FilePackOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""


class FileUnpackOptions(TypedDict, total=False):
    as_: str
    """do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root"""
    uid: int
    gid: int
    parents: bool
    """`true`: make the directories that are missing"""
    keep_owner: bool
    entries_max: int
    bytes_max: int


class PortUrlOptions(TypedDict, total=False):
    expires_s: int
    """seconds until it ends"""


class PortWaitOptions(TypedDict, total=False):
    timeout_ms: int
    """how long (30000 unless given); then the answer is `port_unreachable`"""


class ModuleListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""


class ModuleImportOptions(TypedDict, total=False):
    replace: bool
    """`true`: another file of this name is replaced; sandboxes keep what they were stacked from"""


class _ModuleDescribeOptions(TypedDict):
    schema: Literal[1]
    name: str
    built_at: str
    """RFC 3339, UTC; the day for a reproducible build"""
    builder: str
    base: str | None
    """`name@sha256:digest` of the module it is a difference to"""
    packages: Sequence[str]
    """`name=version`, the ones it adds to its base"""
    squashfs_sha256: str


class ModuleDescribeOptions(_ModuleDescribeOptions, total=False):
    provenance: Mapping[str, str]
    """where it comes from: a distribution, a release, an image"""


class ModuleGcOptions(TypedDict, total=False):
    dry_run: bool
    """`true`: tells what would go, and removes nothing"""


class _ImagePullOptions(TypedDict):
    reference: str
    """`python:3.12-slim`, `ghcr.io/owner/name@sha256:…`"""


class ImagePullOptions(_ImagePullOptions, total=False):
    wait_ms: int
    """how long the answer may wait for the end; ask again while it is `pulling`"""
    again: bool
    """`true`: the registry is asked even if an image of this name is here; a tag may name another by now"""


class ImageListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    all: bool
    """with the steps of builds, whose names begin with `squash.build/`"""


class ImageImportOptions(TypedDict, total=False):
    name: str
    """what it is to be called; none: as the archive calls it"""
    pick: str
    """of several images in the archive, the one of this tag or name"""


class ImageCommitChanges(TypedDict, total=False):
    env: Mapping[str, str]
    """set or added"""
    labels: Mapping[str, str]
    """set or added"""
    user: str
    workdir: str
    entrypoint: Sequence[str]
    cmd: Sequence[str]


class _ImageCommitOptions(TypedDict):
    sandbox: str
    """whose files it has"""
    name: str
    """what it is called; an image of this name here is replaced"""


class ImageCommitOptions(_ImageCommitOptions, total=False):
    snapshot: str
    """as they were then; none: as they are now"""
    changes: ImageCommitChanges
    """to what the sandbox has from the image that it was made from"""


class ImagePushOptions(TypedDict, total=False):
    destination: str
    """what it is to be called there, with a tag: `ghcr.io/owner/name:1`; none: what it is called here"""
    wait_ms: int
    """how long the answer may wait for the end; ask again while it is `pushing`"""


class _ImageFlattenOptions(TypedDict):
    module: str
    """`NNN-name`"""


class ImageFlattenOptions(_ImageFlattenOptions, total=False):
    replace: bool
    """`true`: take the place of a module of this name"""


class SnapshotCreateOptions(TypedDict, total=False):
    labels: Mapping[str, str]
    """whatever the client wants to find it by"""
    memory: bool
    """of a microVM in QEMU that runs: with its processes, so that `sandbox.create` with `memory` makes sandboxes that go on with them"""


class SnapshotListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    label: str
    """`key=value` or `key`, separated by commas: all of them"""


class SnapshotUpdateOptions(TypedDict, total=False):
    label: str
    """its new name"""
    labels: Mapping[str, str | None]
    """each is set, or with null removed; the others stay"""


class SnapshotRestoreOptions(TypedDict, total=False):
    memory: bool
    """of one that was taken with `memory`: the processes of then go on, on the disk of then"""


class SnapshotDiffOptions(TypedDict, total=False):
    against: Literal["base", "current"] | str
    """`base`: the modules that it lies on; `current`: the sandbox as it is now, whose changes since are told; or another snapshot, whose changes up to this one are told"""
    limit: int
    """at most so many, default 1000"""


class BucketListOptions(TypedDict, total=False):
    prefix: str
    """what their keys begin with"""


class BucketRemoveOptions(TypedDict, total=False):
    key: str


class BucketPushOptions(TypedDict, total=False):
    module: str
    sandbox: str
    """whose snapshot"""
    snapshot: str
    replace: bool
    """what is there under its name and is another goes"""


class BucketPullOptions(TypedDict, total=False):
    module: str
    sandbox: str
    """whose snapshot"""
    snapshot: str


class VolumeCreateOptions(TypedDict, total=False):
    size_mb: int
    """what its files may take; refused where this host can not hold it to that"""
    labels: Mapping[str, str]
    """whatever the client wants to find it by"""
    from_: str
    """a volume or a snapshot of one, which is copied"""


class VolumeListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    label: str
    """`key=value` or `key`, separated by commas: all of them"""


class VolumeSnapshotOptions(TypedDict, total=False):
    labels: Mapping[str, str]
    """whatever the client wants to find it by"""


class MountAttachOptions(TypedDict, total=False):
    volume: str
    """name or id of a volume"""
    host: str
    """a directory of the host that the operator’s host-directories.json allows"""
    mode: Literal["ro", "cow", "rw"]
    """none: rw for a volume, ro for a directory of the host. `cow`, of such a directory: what is written stays in the sandbox"""
    paths: Mapping[str, Literal["hidden", "deny", "ro", "cow", "rw"] | MountWishPathsMask]
    """of a directory of the host: path in it → level: `hidden`, `deny`, `ro`, `cow`, `rw`, or `{'mask': TEXT}`. The longest path wins"""


class MountCheckOptions(TypedDict, total=False):
    path: str
    """where the sandbox would have it"""
    mode: Literal["ro", "cow", "rw"]
    owner: str
    """whose sandbox; none: the one of sandboxes without an owner"""
    tier: str
    """of a group whose runs would have it"""


class ChangeApplyOptions(TypedDict, total=False):
    held: bool
    """also what is held back"""
    outside: bool
    """also links that lead out of the place"""
    overwrite: bool
    """also what somebody else has changed on the host since the sandbox began"""


class SandboxPathsOptions(TypedDict, total=False):
    after: int
    """only those with a larger `id`"""
    limit: int
    """at most so many, default 1000"""


class PolicySetOptions(TypedDict, total=False):
    allow: Sequence[str | PolicyRuleWish]
    """default `['*']`, every public host and address; an empty list or `['none']`: nothing"""
    deny: Sequence[str | PolicyRuleWish]
    """always wins"""
    ask: Sequence[str | PolicyRuleWish]
    """a person is asked, while the connection or request waits; a rule of `allow` spares the question where it is as narrow or narrower"""
    dns: Literal["refuse", "nxdomain"]
    """`refuse`: a name that is not allowed gets an address, and connections to it a refusal that says why; `nxdomain`: it does not exist"""
    ask_timeout_ms: int
    """how long is waited for a person, default 60000"""


class PolicyTestOptions(TypedDict, total=False):
    method: str
    policy: PolicyChange
    """tried instead of the sandbox’s own"""


class EgressDecisionsOptions(TypedDict, total=False):
    kind: Literal["dns", "connection", "request"]
    verdict: Literal["allowed", "denied", "blocked", "refused"]
    """`refused`: denied or blocked"""
    host: str
    """a name, or `*.example.com` for names below it"""
    after: int
    """only rows with a larger `id`"""
    limit: int
    """at most so many, default 100"""


class ApprovalListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    state: Literal["pending", "allowed", "denied", "timed_out", "withdrawn"]
    sandbox: str


class ApprovalDecideOptions(TypedDict, total=False):
    scope: Literal["once", "sandbox", "always"]
    """`once`: who waits now; `sandbox`: its policy gets `grant`; `always`: every sandbox whose policy asks, which takes the scope admin. A denial is for once"""
    reason: str
    """for whoever looks back"""


class _SecretSetOauth(TypedDict):
    token_url: str
    """where tokens are refreshed: https, or http on the host’s loopback"""
    client_id: str
    refresh_token: str
    """write-only"""


class SecretSetOauth(_SecretSetOauth, total=False):
    client_secret: str
    """write-only; sent in the body"""
    access_token: str
    """write-only; none: one is fetched at the first request"""
    expires_at: str
    """of `access_token`; none: when a host answers 401"""
    body: Literal["form", "json"]
    """how the endpoint takes the request; default: `form`, as RFC 6749 has it"""


class SecretSetOptions(TypedDict, total=False):
    value: str
    """write-only"""
    oauth: SecretSetOauth
    """in place of `value`: an OAuth 2 credential whose access token is refreshed on the host"""
    placeholder: str
    """default: a random one"""
    allowed_hosts: Sequence[str]
    """`host`, `*.host`, an address, each with an optional `:port`"""
    surfaces: Sequence[Literal["headers", "query", "path", "body"]]
    """default: headers, also inside `Authorization: Basic`"""


class _KeyCreateOptions(TypedDict):
    owner: str
    """whose sandboxes it sees and makes"""
    scope: Literal["read", "exec", "manage", "admin"]
    """each scope includes those before it; 'admin' sees every owner’s"""


class KeyCreateOptions(_KeyCreateOptions, total=False):
    expires_at: str | None
    """RFC 3339, UTC; none: it holds until it is removed"""


class KeyListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    owner: str
    """only this owner’s"""


class _SshKeyCreateOptions(TypedDict):
    owner: str
    """whose sandboxes it sees and makes"""
    public_key: str
    """a line as in a file `id_ed25519.pub`: `ssh-ed25519 AAAA… comment`"""


class SshKeyCreateOptions(_SshKeyCreateOptions, total=False):
    scope: Literal["exec", "manage"]
    """`manage`: also what a key of that scope may"""
    expires_at: str | None
    """RFC 3339, UTC; none: it holds until it is removed"""


class SshKeyListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    owner: str
    """only this owner’s"""


class OwnerListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""


class OwnerSetQuotaOptions(TypedDict, total=False):
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


class AuditListOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
    owner: str
    """only what this owner’s keys asked"""
    sandbox: str
    """only about this sandbox"""
    operation: str
    """only this operation, such as `sandbox.create`"""
    decision: Literal["allowed", "refused", "held"]
    """only what was decided so"""
    of: Literal["requests", "agents"]
    """`agents`: what agents of groups asked for; else requests of clients"""
    since: str
    """only from this time on"""


class EventListOptions(TypedDict, total=False):
    sandbox: str
    type: str
    """comma list of types"""
    owner: str
    """a key of an owner sees no other owner’s"""


class WebhookCreateOptions(TypedDict, total=False):
    types: Sequence[Literal["sandbox.created", "sandbox.updated", "sandbox.paused", "sandbox.resumed", "sandbox.stopped", "sandbox.restarted", "sandbox.failed", "sandbox.timed_out", "sandbox.destroyed", "snapshot.created", "snapshot.removed", "snapshot.updated", "mount.attached", "mount.detached", "approval.requested", "approval.decided", "action.held", "action.decided"]]
    """types of events; none: all of them"""
    owner: str
    """only events of this owner; none: of all"""
    secret: str
    """none: one is made"""


class WebhookUpdateOptions(TypedDict, total=False):
    url: str
    """http or https; private and reserved addresses only as SQUASH_WEBHOOK_RANGES says"""
    types: Sequence[Literal["sandbox.created", "sandbox.updated", "sandbox.paused", "sandbox.resumed", "sandbox.stopped", "sandbox.restarted", "sandbox.failed", "sandbox.timed_out", "sandbox.destroyed", "snapshot.created", "snapshot.removed", "snapshot.updated", "mount.attached", "mount.detached", "approval.requested", "approval.decided", "action.held", "action.decided"]]
    """types of events; none: all of them"""
    enabled: bool
    """what happens while it is not enabled is not sent later"""


class TierSetMessage(TypedDict):
    own: Literal["allow", "hold", "deny"]
    others: Literal["allow", "hold", "deny"]


class TierSetSchedule(TypedDict):
    own: Literal["allow", "hold", "deny"]
    others: Literal["allow", "hold", "deny"]


class _TierSetOptions(TypedDict):
    message: TierSetMessage
    """saying something in a chat"""
    start: TierSetMessage
    """starting a run, by a message to a chat’s group"""
    read: TierSetMessage
    """seeing groups, chats, runs and what was said"""
    create: Literal["allow", "hold", "deny"]
    """making groups and chats"""
    create_tiers: Sequence[str]
    """the tiers that groups made by agents may have; none: agents make no groups"""
    reach: Sequence[str]
    """what its groups’ sandboxes may connect to at most; none: nothing"""
    secrets: Literal["all"] | Sequence[str]
    """which secrets its groups’ sandboxes may use at most"""


class TierSetOptions(_TierSetOptions, total=False):
    schedule: TierSetSchedule
    """making schedules in a chat; pausing, resuming and removing those that its agents made there"""
    schedule_every_s_min: int
    """the least time between two times of such a schedule, and before one that comes once"""
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


class _GroupCreateMounts(TypedDict):
    host: str
    """a directory of the host that the operator’s host-directories.json allows"""
    path: str
    """where it is seen"""


class GroupCreateMounts(_GroupCreateMounts, total=False):
    mode: Literal["ro", "rw"]


class _GroupCreateOptions(TypedDict):
    tier: str
    command: Sequence[str]
    """run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input"""


class GroupCreateOptions(_GroupCreateOptions, total=False):
    profile: Literal["nanoclaw-v1", "nanoclaw-v2"] | None
    """the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash"""
    layers: Sequence[str]
    """of its sandboxes; none: those of the image, or the first base layer"""
    image: str | None
    """an OCI image that was pulled, below the layers"""
    env: Mapping[str, str]
    reach: Sequence[str]
    """what its sandboxes may connect to, of what the tier allows"""
    secrets: Sequence[str]
    """which secrets they may use, of what the tier allows"""
    mounts: Sequence[GroupCreateMounts]
    """directories of the host that its runs have, as far as the tier and host-directories.json allow it"""
    memory_mb: int
    """none: the daemon’s default"""
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


class GroupUpdateOptions(TypedDict, total=False):
    tier: str
    command: Sequence[str]
    """run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input"""
    profile: Literal["nanoclaw-v1", "nanoclaw-v2"] | None
    """the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash"""
    layers: Sequence[str]
    """of its sandboxes; none: those of the image, or the first base layer"""
    image: str | None
    """an OCI image that was pulled, below the layers"""
    env: Mapping[str, str]
    reach: Sequence[str]
    """what its sandboxes may connect to, of what the tier allows"""
    secrets: Sequence[str]
    """which secrets they may use, of what the tier allows"""
    mounts: Sequence[GroupCreateMounts]
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


class GroupRunsOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""


class GroupActionsOptions(TypedDict, total=False):
    state: Literal["done", "held", "denied", "failed"]
    group: str
    """only of this one’s agents"""
    limit: int
    """at most so many, default 100"""


class GroupDecideOptions(TypedDict, total=False):
    reason: str
    """the agent is told"""


class _ChatCreateOptions(TypedDict):
    group: str


class ChatCreateOptions(_ChatCreateOptions, total=False):
    trigger: str | None
    """what a message begins with that starts a run; null: any does"""
    senders: Literal["*"] | Sequence[str]
    """who may start runs; `*`: everybody"""
    others: Literal["context", "drop"]
    """what becomes of other senders’ messages: the next run reads them, or they are not stored"""


class ChatUpdateOptions(TypedDict, total=False):
    trigger: str | None
    """what a message begins with that starts a run; null: any does"""
    senders: Literal["*"] | Sequence[str]
    """who may start runs; `*`: everybody"""
    others: Literal["context", "drop"]
    """what becomes of other senders’ messages: the next run reads them, or they are not stored"""


class _ChatMessageOptions(TypedDict):
    sender: str
    """as the chat system knows him"""


class ChatMessageOptions(_ChatMessageOptions, total=False):
    id: str
    """the chat system’s own; a message that comes again with it is the first one"""


class ChatReadOptions(TypedDict, total=False):
    after: int
    """only later ones"""
    limit: int
    """at most so many, default 100"""


class ScheduleCreateOptions(TypedDict, total=False):
    cron: str
    """`minute hour day month weekday`; one of `cron`, `every_s`, `at`"""
    time_zone: str
    """of `cron`, as in the IANA database; default `UTC`"""
    every_s: int
    """from when it is made"""
    at: str
    """once"""
    context: Literal["group", "isolated"]
    """`group`: its run has all that waits in the chat; `isolated`: the prompt alone"""
    missed: Literal["run_once", "skip"]
    """what becomes of times that passed while there was no daemon"""


class ScheduleListOptions(TypedDict, total=False):
    chat: str
    """only of this one"""
    group: str
    """only of this one’s chats"""


class ScheduleRunsOptions(TypedDict, total=False):
    limit: int
    """at most so many, default 100"""
