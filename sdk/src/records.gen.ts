/** What goes over the wire, by the names that the contract has. */
// Written by tools/sdk-types.ts from contract/openapi.json: do not change it here.

export interface Approval {
  readonly id: string;
  readonly sandbox: string;
  /** `timed_out`: nobody answered; `withdrawn`: nobody waits any more, or a process has ended */
  readonly state: "pending" | "allowed" | "denied" | "timed_out" | "withdrawn";
  readonly host: string | null;
  /** where there is no `host` */
  readonly address: string | null;
  readonly port: number;
  /** of the request that waits; null: a connection does */
  readonly method: string | null;
  /** without the query */
  readonly path: string | null;
  /** the rule of `ask` in the sandbox’s policy */
  readonly rule: string;
  /** the rule that an answer for longer than once adds */
  readonly grant: string | {
    readonly to: readonly string[];
    readonly ports?: readonly string[];
    readonly methods?: readonly string[];
    readonly paths?: readonly string[];
    readonly upgrades?: readonly string[];
  };
  readonly asked_at: string;
  readonly expires_at: string;
  readonly scope: "once" | "sandbox" | "always" | null;
  readonly reason: string | null;
  readonly decided_at: string | null;
  /** id of a key, or `operator`; null: nobody */
  readonly decided_by: string | null;
}

export interface ApprovalDecision {
  readonly decision: "allow" | "deny";
  /** `once`: who waits now; `sandbox`: its policy gets `grant`; `always`: every sandbox whose policy asks, which takes the scope admin. A denial is for once. Default: "once" */
  readonly scope?: "once" | "sandbox" | "always";
  /** for whoever looks back */
  readonly reason?: string;
}

export interface ApprovalPage {
  readonly items: readonly Approval[];
  readonly next: string | null;
}

export type AuditEntry = {
  /** RFC 3339, UTC: when it was answered */
  readonly at: string;
  /** as in the answer’s header `squash-request-id` */
  readonly request_id: string;
  readonly caller: {
    readonly kind: "operator";
  } | {
    readonly kind: "key";
    readonly key: string;
    readonly name: string;
    readonly owner: string;
    readonly scope: "read" | "exec" | "manage" | "admin";
  } | {
    readonly kind: "unknown";
  } | {
    readonly kind: "agent";
    readonly group: string;
    readonly run: number;
  };
  readonly peer: {
    /** `unix`, or the address that the connection came from */
    readonly address: string;
    /** of a client on this machine, where the daemon has asked the kernel */
    readonly uid: number | null;
  };
  /** null: the request reached none */
  readonly operation: string | null;
  /** as the client named it, 128 characters at most */
  readonly sandbox: string | null;
  /** a WebSocket has a line when it begins and one when it ends, all else one */
  readonly stage: "whole" | "start" | "end";
  /** whether the caller may do that; `held`: a person is asked */
  readonly decision: "allowed" | "refused" | "held";
  /** of the error that was answered */
  readonly code: string | null;
  readonly status: number;
  readonly duration_ms: number;
  /** of an agent: its number, as in `group.actions`; null: it has none */
  readonly action?: number | null;
  /** which rule decided on the action */
  readonly rule?: string;
  /** refusals at the gate since the line before that have no line: there were too many */
  readonly dropped?: number;
  /** lines since the line before that could not be written */
  readonly lost?: number;
};

export interface Bucket {
  readonly name: string;
  /** null: Amazon’s own */
  readonly endpoint: string | null;
  readonly region: string;
  /** what all keys begin with; those that are told here are without it */
  readonly prefix: string;
  /** files of sandboxes last in the bucket alone */
  readonly ephemeral: boolean;
  /** modules and snapshots that wait to be pushed */
  readonly pending: number;
  /** what does not work, and what is not the same here and there */
  readonly problems: readonly string[];
}

export interface BucketList {
  /** sorted by key */
  readonly items: readonly BucketObject[];
  /** false: there are more; ask with a longer prefix */
  readonly complete: boolean;
}

export interface BucketObject {
  readonly key: string;
  readonly size_bytes: number;
  readonly modified_at: string;
}

export interface Capability {
  /** stable identifier, such as `user_namespaces` or `cgroup_memory` */
  readonly name: string;
  /** `weaker`: Squash works with something lesser; `missing`: it works without, or not at all */
  readonly state: "ok" | "weaker" | "missing";
  /** without it no sandbox starts */
  readonly required: boolean;
  /** what the host offers, in words */
  readonly found: string;
  /** what Squash does with it */
  readonly choice: string;
  /** what is lost by it; null where nothing is */
  readonly weaker: string | null;
  /** the command that mends it; null where nothing can or need be done */
  readonly remedy: string | null;
}

export interface CellRun {
  /** as it would be typed; the value of its last expression is a result */
  readonly code: string;
  /** then the cell is interrupted, and its kernel ended where that does not help. Default: 300000 */
  readonly timeout_ms?: number;
}

export interface Chat {
  readonly name: string;
  readonly group: string;
  /** what a message begins with that starts a run; null: any does. Default: null */
  readonly trigger: string | null;
  /** who may start runs; `*`: everybody. Default: "*" */
  readonly senders: "*" | readonly string[];
  /** what becomes of other senders’ messages: the next run reads them, or they are not stored. Default: "context" */
  readonly others: "context" | "drop";
  /** the volume of what its agent keeps for it alone; null: no run has had one yet */
  readonly session: string | null;
  readonly created_at: string;
  /** messages that no run has had */
  readonly waiting: number;
}

export interface ChatChange {
  /** what a message begins with that starts a run; null: any does */
  readonly trigger?: string | null;
  /** who may start runs; `*`: everybody */
  readonly senders?: "*" | readonly string[];
  /** what becomes of other senders’ messages: the next run reads them, or they are not stored */
  readonly others?: "context" | "drop";
}

export interface ChatCreate {
  readonly name: string;
  readonly group: string;
  /** what a message begins with that starts a run; null: any does. Default: null */
  readonly trigger?: string | null;
  /** who may start runs; `*`: everybody. Default: "*" */
  readonly senders?: "*" | readonly string[];
  /** what becomes of other senders’ messages: the next run reads them, or they are not stored. Default: "context" */
  readonly others?: "context" | "drop";
}

export interface ChatMessage {
  /** as the chat system knows him */
  readonly sender: string;
  readonly text: string;
  /** the chat system’s own; a message that comes again with it is the first one */
  readonly id?: string;
}

export interface ChatMessageTaken {
  /** `starts`: a run has it; `context`: the next run reads it along; `dropped`: not stored */
  readonly verdict: "starts" | "context" | "dropped";
  /** the rule that decided */
  readonly reason: string;
  /** its number; null: it was dropped */
  readonly message: number | null;
  /** the run that waits for its turn */
  readonly run: number | null;
}

export interface ChatSaid {
  /** its number: what `after` goes on behind */
  readonly message: number;
  readonly chat: string;
  readonly text: string;
  /** the group that says it */
  readonly by: string;
  readonly run: number;
  /** the agent’s id of the action; null: its command printed it */
  readonly action: string | null;
  readonly at: string;
}

export interface ChatSaidPage {
  readonly items: readonly ChatSaid[];
  readonly next: null;
}

export interface Context {
  readonly context: string;
  readonly language: "python" | "javascript" | "typescript";
  /** `dead`: the kernel died, and `context.restart` starts another; `ended`: the whole context */
  readonly state: "starting" | "idle" | "busy" | "dead" | "ended";
  /** the cell that runs */
  readonly cell: number | null;
  /** the process of the sandbox that it is */
  readonly process: number;
  readonly cwd: string;
  /** RFC 3339 with milliseconds, UTC */
  readonly started_at: string;
  /** why it is dead or has ended */
  readonly error: string | null;
}

export type ContextCreate = {
  /** Default: "python" */
  readonly language?: "python" | "javascript" | "typescript";
  /** its name; without one the daemon makes one */
  readonly context?: string;
  /** added to the sandbox default environment. Default: {} */
  readonly env?: Readonly<Record<string, string>>;
  /** none: the image’s, else / */
  readonly cwd?: string;
  /** a uid (which is the gid as well), or both, or a name; without it 0 */
  readonly user?: number | {
    readonly uid: number;
    readonly gid: number;
  } | string;
};

export type DaemonInfo = {
  readonly version: string;
  readonly api: 1;
  readonly pid: number;
  /** RFC 3339, UTC */
  readonly started: string;
  readonly node: string;
  /** what a new sandbox gets that asks for none */
  readonly backend: "chroot" | "vm";
  readonly data_dir: string;
  /** path of the Unix socket */
  readonly socket: string;
  /** null: Unix socket only */
  readonly listen: {
    readonly host: string;
    readonly port: number;
  } | null;
  /** the SSH gateway; null: there is none */
  readonly ssh: {
    readonly host: string;
    readonly port: number;
    /** of its host key, as `ssh` shows it */
    readonly fingerprint: string;
  } | null;
  /** true when TCP asks for a token */
  readonly auth: boolean;
  /** what was found out about this host when the daemon started */
  readonly host: readonly Capability[];
  /** what does not work as it should, now */
  readonly problems: readonly DaemonProblem[];
  /** what the host has for sandboxes, now */
  readonly room: {
    readonly memory: {
      /** bytes */
      readonly total: number;
      /** bytes to be had now */
      readonly available: number;
      /** below so many available bytes a create is refused */
      readonly kept: number;
      /** the sum of what each sandbox may take */
      readonly promised: number;
      /** a create beyond it is refused; null: promises are not counted */
      readonly promised_max: number | null;
    };
    readonly cpu: {
      /** processors */
      readonly total: number;
      /** the sum of what each sandbox may take */
      readonly promised: number;
      /** a create beyond it is refused; null: promises are not counted */
      readonly promised_max: number | null;
    };
    readonly disk: {
      /** bytes */
      readonly total: number;
      /** bytes to be had now */
      readonly available: number;
      /** below so many available bytes a create is refused */
      readonly kept: number;
      /** the sum of what each sandbox may take */
      readonly promised: number;
      /** a create beyond it is refused; null: promises are not counted */
      readonly promised_max: number | null;
    };
  };
  readonly config: readonly ({
    readonly name: string;
    /** a secret is [redacted] */
    readonly value: string;
    readonly source: "environment" | ".env" | "default";
    readonly meaning: string;
  })[];
};

export interface DaemonProblem {
  readonly code: "disk_low" | "memory_low" | "upper_errors" | "launcher_unavailable" | "launcher_outdated" | "helper_unavailable" | "egress_unavailable" | "policy_pending" | "upstream_beside_daemon" | "removal_pending" | "save_pending" | "audit_failing" | "bucket_unavailable" | "bucket_conflict";
  /** what it means, and what would mend it */
  readonly message: string;
}

export interface DiffPage {
  /** the older side: a snapshot, or `base` */
  readonly from: string;
  /** the newer side: a snapshot, or `current` */
  readonly to: string;
  /** by path; of what was removed as it was, else as it is. May be few while there is a next page */
  readonly items: readonly Difference[];
  /** `cursor` of the next page; null: that is all */
  readonly next: string | null;
}

export interface Difference {
  /** `removed` tells of a directory without what was in it */
  readonly change: "added" | "changed" | "removed";
  /** bytes that are no UTF-8 are U+FFFD */
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  /** permission bits, octal */
  readonly mode: string;
  /** 0 of a directory */
  readonly size_bytes: number;
}

export interface EgressDecision {
  readonly id: number;
  /** RFC 3339, UTC: when it was decided */
  readonly time: string;
  readonly kind: "dns" | "connection" | "request";
  readonly host: string | null;
  readonly address: string | null;
  readonly port: number | null;
  readonly method: string | null;
  /** without the query */
  readonly path: string | null;
  /** `blocked`: a placeholder was on its way to a host that may not have its secret */
  readonly verdict: "allowed" | "denied" | "blocked";
  /** the rule that decided, or a code */
  readonly rule: string;
  readonly bytes_up: number | null;
  readonly bytes_down: number | null;
  readonly duration_ms: number | null;
  /** names of secrets that were put in, and of the one whose placeholder was blocked */
  readonly secrets: readonly string[];
  /** equal ones that came at once */
  readonly count: number;
}

export interface EgressDecisions {
  readonly decisions: readonly EgressDecision[];
  /** rows with smaller ids were removed to stay in bounds; 0: none were */
  readonly removed_before: number;
}

export interface Event {
  /** grows and is never used again */
  readonly id: number;
  /** RFC 3339 with milliseconds, UTC */
  readonly at: string;
  readonly type: "sandbox.created" | "sandbox.updated" | "sandbox.paused" | "sandbox.resumed" | "sandbox.stopped" | "sandbox.restarted" | "sandbox.failed" | "sandbox.timed_out" | "sandbox.destroyed" | "snapshot.created" | "snapshot.removed" | "snapshot.updated" | "mount.attached" | "mount.detached" | "approval.requested" | "approval.decided" | "action.held" | "action.decided";
  /** its id, which may be another sandbox’s by now; empty: what it tells of has none any more */
  readonly sandbox: string;
  readonly owner: string;
  /** what there is to say beside that, by type */
  readonly data: Readonly<Record<string, string | number | boolean | null>>;
}

export type Execution = {
  readonly cell: number;
  readonly context: string;
  readonly language: "python" | "javascript" | "typescript";
  readonly status: "ok" | "error" | "interrupted" | "timeout" | "kernel_died";
  readonly execution_count: number | null;
  readonly duration_ms: number;
  /** what was left out past the limits; all 0: nothing */
  readonly cut: {
    readonly stdout_bytes: number;
    readonly stderr_bytes: number;
    readonly results: number;
  };
  readonly stdout: string;
  readonly stderr: string;
  readonly results: readonly ({
    /** the value of the cell; what it displayed by the way is not */
    readonly is_main: boolean;
    readonly text?: string;
    readonly html?: string;
    readonly markdown?: string;
    readonly latex?: string;
    readonly svg?: string;
    /** base64 */
    readonly png?: string;
    /** base64 */
    readonly jpeg?: string;
    /** a data frame: its first 100 rows as `columns`, `index`, `data`, and how many `rows` it has */
    readonly json?: unknown;
    /** by media type */
    readonly other?: Readonly<Record<string, string>>;
    /** formats that were too large */
    readonly omitted?: readonly ({
      readonly format: string;
      readonly bytes: number;
    })[];
  })[];
  /** what the cell raised, or how its kernel died */
  readonly error: {
    readonly name: string;
    readonly message: string;
    /** lines of plain text; empty where there is none */
    readonly traceback: string;
  } | null;
};

export interface File {
  readonly path: string;
  /** where `path` does not show its bytes */
  readonly path_base64?: string;
  readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  readonly size: number;
  /** octal, four digits */
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly modified_at: string;
  /** a symlink’s text */
  readonly target?: string;
  readonly target_base64?: string;
  /** of this state of the file, as the header ETag has it */
  readonly etag: string | null;
}

export interface FileEvent {
  readonly change: "created" | "changed" | "attributes" | "removed" | "moved";
  readonly path: string;
  /** where `path` does not show its bytes */
  readonly path_base64?: string;
}

export interface FileMatch {
  readonly path: string;
  /** where `path` does not show its bytes */
  readonly path_base64?: string;
  /** from 1 */
  readonly line: number;
  /** from 1, in bytes */
  readonly column: number;
  /** the line, or a piece of it around the match */
  readonly text: string;
  /** where in the line `text` begins, in bytes */
  readonly text_offset: number;
}

export interface FileMatches {
  readonly items: readonly FileMatch[];
  /** a bound ended the search: there may be more */
  readonly truncated: boolean;
}

export interface FilePage {
  readonly items: readonly File[];
  readonly next: string | null;
}

export interface GcAnswer {
  readonly dry_run: boolean;
  /** unpacked layers that are there, those that go included */
  readonly trees: number;
  /** of them, those that a sandbox stands on */
  readonly trees_in_use: number;
  /** or would be, with `dry_run` */
  readonly trees_removed: number;
  /** on the disk */
  readonly bytes_freed: number;
}

export interface GcStart {
  /** `true`: tells what would go, and removes nothing */
  readonly dry_run?: boolean;
}

export interface Group {
  readonly name: string;
  readonly tier: string;
  /** run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input */
  readonly command: readonly string[];
  /** the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash. Default: null */
  readonly profile: "nanoclaw-v1" | "nanoclaw-v2" | null;
  readonly layers: readonly string[];
  /** an OCI image that was pulled, below the layers. Default: null */
  readonly image: string | null;
  /** Default: {} */
  readonly env: Readonly<Record<string, string>>;
  /** what its sandboxes may connect to, of what the tier allows. Default: [] */
  readonly reach: readonly string[];
  /** which secrets they may use, of what the tier allows. Default: [] */
  readonly secrets: readonly string[];
  /** directories of the host that its runs have, as far as the tier and host-directories.json allow it. Default: [] */
  readonly mounts: readonly ({
    /** a directory of the host that the operator’s host-directories.json allows */
    readonly host: string;
    /** where it is seen */
    readonly path: string;
    /** Default: "ro" */
    readonly mode: "ro" | "rw";
  })[];
  readonly memory_mb: number | null;
  /** processors; null: the daemon’s default. Default: null */
  readonly cpu: number | null;
  /** what isolates its runs; `vm`: a kernel of their own; null: as SQUASH_BACKEND says. Default: null */
  readonly backend: "chroot" | "vm" | null;
  /** a run that takes longer is ended; null: as the tier says. Default: null */
  readonly timeout_s: number | null;
  /** a run is ended when neither output nor an action came for so long; null: as the tier says. Default: null */
  readonly idle_timeout_s: number | null;
  /** what of a run’s output is told. Default: 1048576 */
  readonly output_bytes_max: number;
  /** what the session of each of its chats may take, where this host can hold it to that. Default: 256 */
  readonly session_mb: number;
  /** its folder; null: no run has had one yet */
  readonly volume: string | null;
  readonly created_at: string;
  /** the group whose agent made it; null: a client of the API */
  readonly created_by: string | null;
  /** runs that wait */
  readonly queued: number;
  readonly running: number;
}

export interface GroupAction {
  readonly number: number;
  /** the agent’s */
  readonly id: string;
  readonly action: "message.send" | "run.start" | "group.create" | "chat.create" | "schedule.create" | "schedule.pause" | "schedule.resume" | "schedule.remove";
  /** whose agent asks */
  readonly group: string;
  readonly run: number;
  /** all of what it asks for */
  readonly request: Readonly<Record<string, unknown>>;
  readonly state: "done" | "held" | "denied" | "failed";
  /** what decided */
  readonly rule: string;
  /** a person’s word, or why it failed */
  readonly reason: string | null;
  readonly asked_at: string;
  readonly decided_at: string | null;
}

export interface GroupActionDecision {
  readonly decision: "allow" | "deny";
  /** the agent is told */
  readonly reason?: string;
}

export interface GroupChange {
  readonly tier?: string;
  /** run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input */
  readonly command?: readonly string[];
  /** the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash */
  readonly profile?: "nanoclaw-v1" | "nanoclaw-v2" | null;
  /** of its sandboxes; none: those of the image, or the first base layer */
  readonly layers?: readonly string[];
  /** an OCI image that was pulled, below the layers */
  readonly image?: string | null;
  readonly env?: Readonly<Record<string, string>>;
  /** what its sandboxes may connect to, of what the tier allows */
  readonly reach?: readonly string[];
  /** which secrets they may use, of what the tier allows */
  readonly secrets?: readonly string[];
  /** directories of the host that its runs have, as far as the tier and host-directories.json allow it */
  readonly mounts?: readonly ({
    /** a directory of the host that the operator’s host-directories.json allows */
    readonly host: string;
    /** where it is seen */
    readonly path: string;
    /** Default: "ro" */
    readonly mode?: "ro" | "rw";
  })[];
  readonly memory_mb?: number | null;
  /** processors; null: the daemon’s default */
  readonly cpu?: number | null;
  /** what isolates its runs; `vm`: a kernel of their own; null: as SQUASH_BACKEND says */
  readonly backend?: "chroot" | "vm" | null;
  /** a run that takes longer is ended; null: as the tier says */
  readonly timeout_s?: number | null;
  /** a run is ended when neither output nor an action came for so long; null: as the tier says */
  readonly idle_timeout_s?: number | null;
  /** what of a run’s output is told */
  readonly output_bytes_max?: number;
  /** what the session of each of its chats may take, where this host can hold it to that */
  readonly session_mb?: number;
}

export interface GroupCreate {
  readonly name: string;
  readonly tier: string;
  /** run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input */
  readonly command: readonly string[];
  /** the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash. Default: null */
  readonly profile?: "nanoclaw-v1" | "nanoclaw-v2" | null;
  /** of its sandboxes; none: those of the image, or the first base layer. Default: [] */
  readonly layers?: readonly string[];
  /** an OCI image that was pulled, below the layers. Default: null */
  readonly image?: string | null;
  /** Default: {} */
  readonly env?: Readonly<Record<string, string>>;
  /** what its sandboxes may connect to, of what the tier allows. Default: [] */
  readonly reach?: readonly string[];
  /** which secrets they may use, of what the tier allows. Default: [] */
  readonly secrets?: readonly string[];
  /** directories of the host that its runs have, as far as the tier and host-directories.json allow it. Default: [] */
  readonly mounts?: readonly ({
    /** a directory of the host that the operator’s host-directories.json allows */
    readonly host: string;
    /** where it is seen */
    readonly path: string;
    /** Default: "ro" */
    readonly mode?: "ro" | "rw";
  })[];
  /** none: the daemon’s default */
  readonly memory_mb?: number;
  /** processors; null: the daemon’s default. Default: null */
  readonly cpu?: number | null;
  /** what isolates its runs; `vm`: a kernel of their own; null: as SQUASH_BACKEND says. Default: null */
  readonly backend?: "chroot" | "vm" | null;
  /** a run that takes longer is ended; null: as the tier says. Default: null */
  readonly timeout_s?: number | null;
  /** a run is ended when neither output nor an action came for so long; null: as the tier says. Default: null */
  readonly idle_timeout_s?: number | null;
  /** what of a run’s output is told. Default: 1048576 */
  readonly output_bytes_max?: number;
  /** what the session of each of its chats may take, where this host can hold it to that. Default: 256 */
  readonly session_mb?: number;
}

export interface GroupRun {
  readonly run: number;
  readonly group: string;
  readonly chat: string;
  readonly state: "queued" | "running" | "done" | "failed";
  /** 1: the first */
  readonly attempt: number;
  /** why the last attempt failed, or what it waits for */
  readonly reason: string | null;
  readonly exit_code: number | null;
  /** while it has one */
  readonly sandbox: string | null;
  /** an earlier run of the chat was in its sandbox */
  readonly warm: boolean;
  /** it is over and its sandbox is kept so long, for the next run of the chat */
  readonly warm_until: string | null;
  /** told, of its standard output */
  readonly output_bytes: number;
  /** it printed more */
  readonly truncated: boolean;
  /** runs that started it, one the other */
  readonly depth: number;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export interface Image {
  /** all of it: `docker.io/library/python:3.12-slim` */
  readonly name: string;
  /** `sha256:…` of its configuration, as other engines show it */
  readonly id: string;
  /** `sha256:…` of its manifest; null: it came without one, as in a docker-archive */
  readonly digest: string | null;
  /** `amd64`, `arm64` */
  readonly architecture: string;
  /** when it was built, as it says */
  readonly created_at: string | null;
  /** since when it is here; RFC 3339, UTC */
  readonly pulled_at: string;
  readonly source: "registry" | "archive" | "sandbox";
  /** of its layers here */
  readonly size_bytes: number;
  /** that it has; here they may be fewer: equal ones are one, and a deep image’s lowest are merged */
  readonly layers: number;
  /** its layers here, lowest first */
  readonly modules: readonly string[];
  /** device nodes that its layers have and a sandbox does not get */
  readonly devices_left_out: number;
  /** variables of every command */
  readonly env: Readonly<Record<string, string>>;
  /** as the image says it; empty: root */
  readonly user: string;
  /** found in the image; null: its files have no such user */
  readonly uid: number | null;
  readonly gid: number | null;
  /** of that user */
  readonly home: string | null;
  /** where commands start */
  readonly workdir: string;
  /** what `squash run --image` starts where no command is named, with `cmd` behind it */
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface ImagePull {
  readonly state: "pulling" | "ready";
  readonly name: string;
  /** 0: not known yet */
  readonly layers: number;
  readonly layers_done: number;
  /** to be fetched; what is here already does not count */
  readonly bytes: number;
  readonly bytes_done: number;
  /** null while it is `pulling` */
  readonly image: Image | null;
}

export interface ImagePush {
  readonly state: "pushing" | "ready";
  /** of the image here */
  readonly name: string;
  readonly destination: string;
  readonly layers: number;
  readonly layers_done: number;
  /** that the registry had already */
  readonly layers_present: number;
  /** to be sent, as far as it is known */
  readonly bytes: number;
  readonly bytes_done: number;
  /** `sha256:…` of its manifest in the registry; null while it is `pushing` */
  readonly digest: string | null;
}

export interface Key {
  /** made by the daemon; no secret */
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scope: "read" | "exec" | "manage" | "admin";
  /** RFC 3339, UTC */
  readonly created_at: string;
  /** RFC 3339, UTC; null: it holds until it is removed */
  readonly expires_at: string | null;
  /** RFC 3339, UTC; null: never; written once a minute */
  readonly last_used_at: string | null;
}

export interface KeyCreate {
  /** what it is for; for people */
  readonly name: string;
  /** whose sandboxes it sees and makes */
  readonly owner: string;
  /** each scope includes those before it; "admin" sees every owner’s */
  readonly scope: "read" | "exec" | "manage" | "admin";
  /** RFC 3339, UTC; none: it holds until it is removed */
  readonly expires_at?: string | null;
}

export interface KeyCreated {
  /** made by the daemon; no secret */
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scope: "read" | "exec" | "manage" | "admin";
  /** RFC 3339, UTC */
  readonly created_at: string;
  /** RFC 3339, UTC; null: it holds until it is removed */
  readonly expires_at: string | null;
  /** RFC 3339, UTC; null: never; written once a minute */
  readonly last_used_at: string | null;
  /** shown this once: whoever has it has the key */
  readonly token: string;
}

export interface KeySelf {
  /** null: you are the operator, by SQUASH_AUTH_TOKEN, socket or connection */
  readonly key: string | null;
  readonly name: string | null;
  readonly owner: string | null;
  readonly scope: "read" | "exec" | "manage" | "admin";
  readonly expires_at: string | null;
  /** of the owner; null for the operator */
  readonly quota: Quota | null;
  readonly use: QuotaUse | null;
}

export interface Module {
  /** without `.squashfs` */
  readonly name: string;
  /** of the squashfs file */
  readonly size_bytes: number;
  readonly location: "local" | "remote";
}

export interface ModuleActivate {
  readonly module: string;
}

export interface ModuleDetails {
  /** without `.squashfs` */
  readonly name: string;
  /** of the squashfs file */
  readonly size_bytes: number;
  readonly location: "local" | "remote";
  /** of the squashfs file: what the module is, whatever it is called */
  readonly sha256: string;
  /** RFC 3339, UTC; null: it has no manifest */
  readonly built_at: string | null;
  /** what built it */
  readonly builder: string | null;
  /** `name@sha256:digest` of the module it is a difference to */
  readonly base: string | null;
  /** `name=version`, what it adds to its base */
  readonly packages: readonly string[];
  /** where it comes from, in words of who built it */
  readonly provenance: Readonly<Record<string, string>>;
  /** of its programs: `x86_64` or `aarch64`; null: it has none, or has not been unpacked yet */
  readonly architecture: string | null;
  /** the C library that its programs are linked to; null: none, or not unpacked yet */
  readonly libc: "glibc" | "musl" | null;
}

export interface ModuleManifest {
  readonly schema: 1;
  readonly name: string;
  /** RFC 3339, UTC; the day for a reproducible build */
  readonly built_at: string;
  readonly builder: string;
  /** `name@sha256:digest` of the module it is a difference to */
  readonly base: string | null;
  /** `name=version`, the ones it adds to its base */
  readonly packages: readonly string[];
  readonly squashfs_sha256: string;
  /** where it comes from: a distribution, a release, an image */
  readonly provenance?: Readonly<Record<string, string>>;
}

export interface ModulePage {
  readonly items: readonly Module[];
  /** `cursor` of the next page; null: there is none */
  readonly next: string | null;
}

export interface MountCheck {
  /** the directory of the host */
  readonly host: string;
  /** where the sandbox would have it */
  readonly path?: string;
  /** Default: "ro" */
  readonly mode?: "ro" | "cow" | "rw";
  /** whose sandbox; none: the one of sandboxes without an owner */
  readonly owner?: string;
  /** of a group whose runs would have it */
  readonly tier?: string;
}

export interface MountCheckAnswer {
  readonly allowed: boolean;
  readonly mode: "ro" | "cow" | "rw";
  /** why not, as `host_directory_refused` has it */
  readonly reason: string | null;
  /** the rules in the order they are asked; one that refuses is the last */
  readonly steps: readonly ({
    /** `place`, `tier`, `path`, `list`, `owner`, `mode`, … */
    readonly rule: string;
    readonly allowed: boolean;
    /** the code of a refusal */
    readonly reason: string | null;
    readonly sentence: string;
  })[];
}

export interface MountInfo {
  readonly id: string;
  /** the volume’s id */
  readonly volume: string | null;
  /** the directory of the host */
  readonly host: string | null;
  readonly path: string;
  readonly mode: "ro" | "cow" | "rw";
  /** levels of what lies in it */
  readonly paths?: Readonly<Record<string, "hidden" | "deny" | "ro" | "cow" | "rw" | {
    /** the text that stands in the file’s place */
    readonly mask: string;
  }>>;
}

export interface MountWish {
  /** name or id of a volume */
  readonly volume?: string;
  /** a directory of the host that the operator’s host-directories.json allows */
  readonly host?: string;
  /** where it is seen in the sandbox; made where it is missing */
  readonly path: string;
  /** none: rw for a volume, ro for a directory of the host. `cow`, of such a directory: what is written stays in the sandbox */
  readonly mode?: "ro" | "cow" | "rw";
  /** of a directory of the host: path in it → level: `hidden`, `deny`, `ro`, `cow`, `rw`, or `{"mask": TEXT}`. The longest path wins */
  readonly paths?: Readonly<Record<string, "hidden" | "deny" | "ro" | "cow" | "rw" | {
    /** the text that stands in the file’s place */
    readonly mask: string;
  }>>;
}

export interface Owner {
  readonly owner: string;
  /** how many keys it has */
  readonly keys: number;
  readonly quota: Quota;
  readonly use: QuotaUse;
}

export interface Policy {
  readonly allow: readonly (string | {
    readonly to: readonly string[];
    readonly ports?: readonly string[];
    readonly methods?: readonly string[];
    readonly paths?: readonly string[];
    readonly upgrades?: readonly string[];
  })[];
  readonly deny: readonly (string | {
    readonly to: readonly string[];
    readonly ports?: readonly string[];
    readonly methods?: readonly string[];
    readonly paths?: readonly string[];
    readonly upgrades?: readonly string[];
  })[];
  /** left out where nobody is asked */
  readonly ask?: readonly (string | {
    readonly to: readonly string[];
    readonly ports?: readonly string[];
    readonly methods?: readonly string[];
    readonly paths?: readonly string[];
    readonly upgrades?: readonly string[];
  })[];
  readonly dns: "refuse" | "nxdomain";
  readonly ask_timeout_ms?: number;
}

export interface PolicyChange {
  /** default `["*"]`, every public host and address; an empty list or `["none"]`: nothing. Default: ["*"] */
  readonly allow?: readonly (string | {
    /** destinations: `host`, `*.host`, an address, a range, `*`, `preset:name`; each but the last with `:port` */
    readonly to: string | readonly string[];
    /** 443 or "8000-8999"; for destinations that name no port */
    readonly ports?: readonly (number | string)[];
    /** HTTP methods */
    readonly methods?: readonly string[];
    /** HTTP paths, each with everything below it: `/v1` is `/v1` and `/v1/…` */
    readonly paths?: readonly string[];
    /** protocols that a request may change to where methods or paths are looked at, such as `websocket`; what follows is no request */
    readonly upgrades?: readonly string[];
  })[];
  /** always wins. Default: [] */
  readonly deny?: readonly (string | {
    /** destinations: `host`, `*.host`, an address, a range, `*`, `preset:name`; each but the last with `:port` */
    readonly to: string | readonly string[];
    /** 443 or "8000-8999"; for destinations that name no port */
    readonly ports?: readonly (number | string)[];
    /** HTTP methods */
    readonly methods?: readonly string[];
    /** HTTP paths, each with everything below it: `/v1` is `/v1` and `/v1/…` */
    readonly paths?: readonly string[];
    /** protocols that a request may change to where methods or paths are looked at, such as `websocket`; what follows is no request */
    readonly upgrades?: readonly string[];
  })[];
  /** a person is asked, while the connection or request waits; a rule of `allow` spares the question where it is as narrow or narrower */
  readonly ask?: readonly (string | {
    /** destinations: `host`, `*.host`, an address, a range, `*`, `preset:name`; each but the last with `:port` */
    readonly to: string | readonly string[];
    /** 443 or "8000-8999"; for destinations that name no port */
    readonly ports?: readonly (number | string)[];
    /** HTTP methods */
    readonly methods?: readonly string[];
    /** HTTP paths, each with everything below it: `/v1` is `/v1` and `/v1/…` */
    readonly paths?: readonly string[];
    /** protocols that a request may change to where methods or paths are looked at, such as `websocket`; what follows is no request */
    readonly upgrades?: readonly string[];
  })[];
  /** `refuse`: a name that is not allowed gets an address, and connections to it a refusal that says why; `nxdomain`: it does not exist. Default: "refuse" */
  readonly dns?: "refuse" | "nxdomain";
  /** how long is waited for a person, default 60000 */
  readonly ask_timeout_ms?: number;
}

export interface PolicyLearnAnswer {
  /** the smallest policy under which all that was asked for is allowed */
  readonly policy: Policy;
  readonly seen: readonly ({
    /** `host:port` */
    readonly destination: string;
    readonly count: number;
    /** how many of them were */
    readonly refused: number;
  })[];
  readonly left_out: readonly ({
    readonly what: string;
    readonly why: string;
  })[];
}

export interface PolicyPreset {
  readonly name: string;
  readonly summary: string;
  readonly hosts: readonly string[];
  /** when the list was last gone over */
  readonly date: string;
  readonly sources: string;
}

export interface PolicyTest {
  /** `host:port`, `address:port`, or a URL of http or https */
  readonly to: string;
  /** Default: "GET" */
  readonly method?: string;
  /** tried instead of the sandbox’s own */
  readonly policy?: PolicyChange;
}

export interface PolicyTestAnswer {
  readonly allowed: boolean;
  /** it is allowed where a person says so */
  readonly asked?: true;
  readonly host: string | null;
  readonly address: string | null;
  readonly port: number;
  /** up to the first refusal; of several addresses one has to be allowed */
  readonly steps: readonly ({
    /** what is decided, in this order */
    readonly step: "name" | "connection" | "request" | "address";
    readonly allowed: boolean;
    /** a person is asked */
    readonly asked?: true;
    /** the rule of the policy, or a code such as `not_allowed` */
    readonly rule: string;
    /** of an `address` step: one that would be dialled */
    readonly address?: string;
    /** who would have to name that address, and how */
    readonly remedy?: string;
  })[];
  /** why no address was judged, where none was; null where every one was */
  readonly not_resolved: string | null;
  /** TLS to it is read, because a rule has methods or paths */
  readonly reads_requests: boolean;
}

export interface Port {
  readonly port: number;
  readonly access: "public" | "token";
  /** where browsers find it; `null` where the daemon listens on its Unix socket alone */
  readonly url: string | null;
}

export interface PortChange {
  readonly access: "public" | "token";
}

export type PortInfo = {
  readonly port: number;
  /** that it listens on */
  readonly addresses: readonly string[];
  /** who listens, as the sandbox tells it; `null` where that is another user than root */
  readonly process: {
    readonly pid: number;
    readonly name: string;
  } | null;
  readonly access: "public" | "token";
  /** where browsers find it; `null` where the daemon listens on its Unix socket alone */
  readonly url: string | null;
};

export interface PortLink {
  /** where browsers find it; `null` where the daemon listens on its Unix socket alone */
  readonly url: string | null;
  /** for programs: the header `Squash-Preview-Token` */
  readonly token: string;
  readonly expires_at: string;
}

export interface PortLinkWish {
  /** seconds until it ends. Default: 3600 */
  readonly expires_s?: number;
}

export interface PortList {
  readonly items: readonly PortInfo[];
  /** always `null`: a sandbox has no more than one answer holds */
  readonly next: string | null;
}

export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** the cause */
  readonly detail: string;
  readonly code: "invalid_request" | "invalid_json" | "unauthorized" | "token_required" | "forbidden" | "origin_refused" | "not_found" | "method_not_allowed" | "request_timeout" | "upgrade_required" | "body_too_large" | "unsupported_media_type" | "sandbox_not_found" | "approval_not_found" | "approval_expired" | "approval_decided" | "sandbox_exists" | "sandbox_limit" | "ceiling_exceeded" | "host_full" | "sandbox_not_ready" | "sandbox_paused" | "sandbox_busy" | "quota_exceeded" | "exec_limit" | "stream_limit" | "connection_limit" | "exec_failed" | "user_not_found" | "process_not_found" | "process_ended" | "output_not_kept" | "stdin_closed" | "stdin_blocked" | "interpreter_missing" | "context_not_found" | "context_exists" | "context_ended" | "context_limit" | "context_busy" | "kernel_died" | "cell_not_found" | "wait_timeout" | "idempotency_mismatch" | "job_not_found" | "module_not_found" | "module_exists" | "module_invalid" | "module_in_use" | "module_incompatible" | "module_active" | "image_not_found" | "image_invalid" | "image_unsupported" | "registry_unavailable" | "registry_denied" | "registry_credentials_unreadable" | "volume_not_found" | "volume_exists" | "volume_in_use" | "volume_limit" | "mount_not_found" | "mount_exists" | "mount_limit" | "mount_busy" | "mount_refused" | "host_directory_refused" | "tier_not_found" | "tier_built_in" | "tier_in_use" | "tier_forbids" | "group_not_found" | "group_exists" | "group_in_use" | "group_limit" | "chat_not_found" | "chat_exists" | "schedule_not_found" | "schedule_exists" | "schedule_never" | "action_not_found" | "action_decided" | "host_root_unavailable" | "host_path_refused" | "host_root_unsupported" | "vm_unavailable" | "vm_unsupported" | "layer_corrupt" | "snapshot_not_found" | "snapshot_exists" | "snapshot_invalid" | "snapshot_path_too_long" | "webhook_not_found" | "webhook_limit" | "webhook_address_refused" | "limits_unenforceable" | "limit_below_use" | "unsupported_feature" | "not_offered" | "disk_full" | "guest_failed" | "file_failed" | "file_not_found" | "file_exists" | "directory_not_empty" | "not_a_directory" | "is_a_directory" | "not_a_file" | "permission_denied" | "path_invalid" | "file_busy" | "precondition_failed" | "range_not_satisfiable" | "archive_invalid" | "sandbox_full" | "port_unreachable" | "port_offered" | "offer_limit" | "connection_gone" | "launch_failed" | "launcher_unavailable" | "bucket_unavailable" | "bucket_not_set" | "bucket_conflict" | "egress_unavailable" | "secret_not_found" | "key_not_found" | "ssh_key_exists" | "ssh_login_refused" | "key_limit" | "secrets_invalid" | "shutting_down" | "config_invalid" | "database_corrupt" | "database_missing" | "database_newer" | "database_unavailable" | "data_locked" | "internal";
  /** what the caller can do about it */
  readonly remedy: string;
}

export type ProcessExec = {
  /** argv[0] is looked up in PATH inside the sandbox; no shell */
  readonly argv?: readonly string[];
  /** run by /bin/sh -c; either this or `argv` */
  readonly shell?: string;
  /** added to the sandbox default environment. Default: {} */
  readonly env?: Readonly<Record<string, string>>;
  /** none: the image’s, else / */
  readonly cwd?: string;
  /** a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0 */
  readonly user?: number | {
    readonly uid: number;
    readonly gid: number;
  } | string;
  /** a name of the caller’s own; `tag:NAME` finds the latest process of it */
  readonly tag?: string;
  /** output that is kept, of both streams together. Default: 1048576 */
  readonly output_bytes_max?: number;
  /** standard input, whole; it ends behind it */
  readonly stdin?: string;
  /** the same for bytes that are no text */
  readonly stdin_base64?: string;
  /** Default: 300000 */
  readonly timeout_ms?: number;
  /** which end of longer output is kept. Default: "head" */
  readonly keep?: "head" | "tail";
  /** `text`: bytes that are no UTF-8 become U+FFFD. Default: "text" */
  readonly encoding?: "text" | "base64";
};

export type ProcessInfo = {
  /** its number in the sandbox: the command’s `seq` */
  readonly process: number;
  readonly tag: string | null;
  /** `process`: by `process.start`; `exec`: somebody waits for its end; `stream`: over a WebSocket of its own; `job`: by exec-bg */
  readonly kind: "exec" | "process" | "stream" | "job";
  readonly state: "running" | "ended";
  /** inside the sandbox; null when it has ended or is just being found again */
  readonly pid: number | null;
  /** null where it was started as a shell line */
  readonly argv: readonly string[] | null;
  /** the shell line, or `argv` written as one */
  readonly command: string;
  readonly cwd: string;
  /** null: nobody noted it */
  readonly user: {
    readonly uid: number;
    readonly gid: number;
  } | null;
  readonly pty: boolean;
  readonly stdin: "none" | "open" | "ended";
  readonly timeout_ms: number | null;
  /** RFC 3339 with milliseconds, UTC */
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly duration_ms: number | null;
  /** 128 + signal where a signal ended it; 124 when timed out; 126, 127: it could not be started; null while it runs */
  readonly exit_code: number | null;
  readonly signal: number | null;
  readonly timed_out: boolean;
  readonly reason: "exited" | "signaled" | "timed_out" | "oom_killed" | "upper_full" | "layers_changed" | "destroyed" | "killed" | "stopped" | "lost" | null;
  /** bytes written, kept or not */
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
};

export type ProcessResult = {
  /** its number in the sandbox: the command’s `seq` */
  readonly process: number;
  readonly tag: string | null;
  /** `process`: by `process.start`; `exec`: somebody waits for its end; `stream`: over a WebSocket of its own; `job`: by exec-bg */
  readonly kind: "exec" | "process" | "stream" | "job";
  readonly state: "running" | "ended";
  /** inside the sandbox; null when it has ended or is just being found again */
  readonly pid: number | null;
  /** null where it was started as a shell line */
  readonly argv: readonly string[] | null;
  /** the shell line, or `argv` written as one */
  readonly command: string;
  readonly cwd: string;
  /** null: nobody noted it */
  readonly user: {
    readonly uid: number;
    readonly gid: number;
  } | null;
  readonly pty: boolean;
  readonly stdin: "none" | "open" | "ended";
  readonly timeout_ms: number | null;
  /** RFC 3339 with milliseconds, UTC */
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly duration_ms: number | null;
  /** 128 + signal where a signal ended it; 124 when timed out; 126, 127: it could not be started; null while it runs */
  readonly exit_code: number | null;
  readonly signal: number | null;
  readonly timed_out: boolean;
  readonly reason: "exited" | "signaled" | "timed_out" | "oom_killed" | "upper_full" | "layers_changed" | "destroyed" | "killed" | "stopped" | "lost" | null;
  /** bytes written, kept or not */
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  readonly encoding: "text" | "base64";
  /** what is kept of it */
  readonly stdout: string;
  readonly stderr: string;
  /** more was written than is here */
  readonly truncated: boolean;
};

export interface ProcessSignal {
  /** a number, or a name such as `TERM` or `SIGTERM`; to the whole process group */
  readonly signal: number | string;
}

export type ProcessStart = {
  /** argv[0] is looked up in PATH inside the sandbox; no shell */
  readonly argv?: readonly string[];
  /** run by /bin/sh -c; either this or `argv` */
  readonly shell?: string;
  /** added to the sandbox default environment. Default: {} */
  readonly env?: Readonly<Record<string, string>>;
  /** none: the image’s, else / */
  readonly cwd?: string;
  /** a uid (which is the gid as well), or both; without it the image’s or the host user’s, else 0 */
  readonly user?: number | {
    readonly uid: number;
    readonly gid: number;
  } | string;
  /** a name of the caller’s own; `tag:NAME` finds the latest process of it */
  readonly tag?: string;
  /** output that is kept, of both streams together. Default: 1048576 */
  readonly output_bytes_max?: number;
  /** keep standard input open for `process.stdin`; without it, it is empty. Default: false */
  readonly stdin?: boolean;
  /** give it a terminal, which takes input as well */
  readonly pty?: {
    readonly rows: number;
    readonly columns: number;
    /** Default: "xterm-256color" */
    readonly term?: string;
  };
  /** none: it runs until it ends */
  readonly timeout_ms?: number;
  /** which end of longer output is kept. Default: "tail" */
  readonly keep?: "head" | "tail";
};

export interface ProcessWait {
  readonly process: ProcessInfo;
  /** of a line: where it ends in the output */
  readonly seq: number | null;
  /** the line that matched */
  readonly line: string | null;
}

export interface Quota {
  /** sandboxes that exist */
  readonly sandboxes: number | null;
  /** the sum of what they may use */
  readonly memory_mb: number | null;
  /** the sum of their processors */
  readonly cpu: number | null;
  /** the sum of what their writable layers may hold, their snapshots’ files and the sizes of volumes */
  readonly disk_mb: number | null;
  /** commands that run at once */
  readonly execs: number | null;
}

export interface QuotaChange {
  /** sandboxes that exist */
  readonly sandboxes?: number | null;
  /** the sum of what they may use */
  readonly memory_mb?: number | null;
  /** the sum of their processors */
  readonly cpu?: number | null;
  /** the sum of what their writable layers may hold, their snapshots’ files and the sizes of volumes */
  readonly disk_mb?: number | null;
  /** commands that run at once */
  readonly execs?: number | null;
}

export interface QuotaUse {
  readonly sandboxes: number;
  readonly memory_mb: number;
  readonly cpu: number;
  readonly disk_mb: number;
  readonly execs: number;
}

export interface RefusedPath {
  /** of this sandbox; rises */
  readonly id: number;
  /** when it was refused first, RFC 3339 */
  readonly at: string;
  /** absolute; by the text alone, so links are as they were written */
  readonly path: string;
  /** the path’s bytes, where they are not UTF-8 */
  readonly path_base64?: string;
  /** `look`: whether it is there, and what; `write`: also to make, rename or remove it */
  readonly intent: "look" | "read" | "write" | "execute";
}

export interface RefusedPaths {
  /** whether it was made with `from.host.trace_paths`; else there is nothing */
  readonly traced: boolean;
  /** in the order in which they came */
  readonly items: readonly RefusedPath[];
  /** there were more than are kept: 10000, or a megabyte of paths */
  readonly truncated: boolean;
}

export interface Sandbox {
  readonly id: string;
  readonly name: string | null;
  /** its part of the host names of its ports: `<port>-<host_label>.localhost` */
  readonly host_label: string;
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  /** `paused`: it stands still with its processes; `stopped`: it has files and no processes */
  readonly state: "creating" | "ready" | "paused" | "stopped" | "restarting" | "failed" | "destroying";
  /** why it does not run, where it should */
  readonly failure: string | null;
  /** `chroot`: namespaces; `vm`: a kernel of its own */
  readonly backend: "chroot" | "vm";
  readonly layers: readonly string[];
  /** the OCI image it was made from, and what its commands have from it; null: none */
  readonly image: SandboxImage | null;
  /** the levels of the host’s paths, where its root is the host’s file system; null: it has layers */
  readonly host_paths: Readonly<Record<string, "hidden" | "deny" | "mask" | "ro" | "cow" | "rw">> | null;
  /** the snapshot that it was made from or restored to last */
  readonly snapshot: string | null;
  readonly env: Readonly<Record<string, string>>;
  readonly cpu: number;
  readonly memory_mb: number;
  /** what its own files may take */
  readonly disk_mb: number;
  /** what they take, at most some seconds old */
  readonly disk_bytes: number;
  /** how many were started in it */
  readonly commands: number;
  readonly created_at: string;
  readonly last_active_at: string;
  readonly expires_at: string | null;
  readonly lifetime_s: number | null;
  readonly idle_timeout_s: number | null;
  readonly on_timeout: "destroy" | "pause" | "snapshot";
  readonly warnings: readonly Warning[];
}

export interface SandboxChange {
  readonly name?: string | null;
  /** each is set, or with null removed; the others stay */
  readonly labels?: Readonly<Record<string, string | null>>;
  /** replaces all; of commands that start from now on */
  readonly env?: Readonly<Record<string, string>>;
  /** processors */
  readonly cpu?: number;
  /** MiB */
  readonly memory_mb?: number;
  /** seconds from the create, or from the last change of it; null: no end */
  readonly lifetime_s?: number | null;
  /** seconds without a command that somebody waits for, output, files, ports or work; null: none */
  readonly idle_timeout_s?: number | null;
  /** when lifetime or idle time is over. `pause`: it stands still and keeps its memory; `snapshot`: its files are saved as a snapshot and its processes end */
  readonly on_timeout?: "destroy" | "pause" | "snapshot";
  /** replaces it, as PUT …/policy does */
  readonly policy?: PolicyChange;
}

export type SandboxCreate = {
  /** for people; need not be unique */
  readonly name?: string;
  /** default: the key’s */
  readonly owner?: string;
  /** whatever the client wants to find it by. Default: {} */
  readonly labels?: Readonly<Record<string, string>>;
  /** variables of every command. Default: {} */
  readonly env?: Readonly<Record<string, string>>;
  /** none: the base layer */
  readonly from?: {
    /** module names; the numbers they begin with say which lies on which */
    readonly layers: readonly string[];
  } | {
    readonly sandbox: string;
    /** none: its files as they are now, while it runs */
    readonly snapshot?: string;
  } | {
    /** the host’s file system through rules; only for callers of scope `admin`, where the daemon offers it (`SQUASH_HOST_ROOT`) */
    readonly host: {
      /** path of the host → level: `hidden`, `deny`, `ro`, `cow` (writes stay in the sandbox), `rw` or `mask`. The longest path wins; what none names is hidden */
      readonly paths: Readonly<Record<string, "hidden" | "deny" | "mask" | "ro" | "cow" | "rw">>;
      /** what a file of level `mask` holds, by its path. Default: {} */
      readonly masks?: Readonly<Record<string, string>>;
      /** Unix sockets of the host that are reached at their paths, in a hidden directory as well. A rule for the same path decides; those of container engines are refused. Default: [] */
      readonly sockets?: readonly string[];
      /** character devices of the host below `/dev`. A rule for the same path decides; disks, memory, networks, terminals and keyboards are refused. Default: [] */
      readonly devices?: readonly string[];
      /** who commands run as: the user whose daemon this is, as on the host */
      readonly user: {
        readonly name: string;
        readonly home: string;
        /** Default: "/bin/sh" */
        readonly shell?: string;
      };
      /** what becomes of it some seconds after its last command ended. A command of a stream whose client is gone does not count. Default: "keep" */
      readonly when_unused?: "keep" | "stop" | "destroy";
      /** note which paths its programs are refused (`sandbox.paths`). Each call with a path takes some microseconds more. Default: false */
      readonly trace_paths?: boolean;
      /** its programs may make user namespaces of their own, and the others in them: for a sandbox inside the sandbox. More of the kernel is reached. Default: false */
      readonly nesting?: boolean;
      /** a path of level `cow`: `when_unused: "stop"` destroys a sandbox that wrote nothing there */
      readonly work?: string;
    };
  };
  /** processors */
  readonly cpu?: number;
  /** MiB */
  readonly memory_mb?: number;
  /** processes and threads at once; none: 1024, or as the sandbox that it is made from */
  readonly processes_max?: number;
  /** seconds from the create, or from the last change of it; null: no end */
  readonly lifetime_s?: number | null;
  /** seconds without a command that somebody waits for, output, files, ports or work; null: none */
  readonly idle_timeout_s?: number | null;
  /** when lifetime or idle time is over. `pause`: it stands still and keeps its memory; `snapshot`: its files are saved as a snapshot and its processes end. Default: "destroy" */
  readonly on_timeout?: "destroy" | "pause" | "snapshot";
  /** what it may reach; none: everything public; an empty `allow`: nothing */
  readonly policy?: PolicyChange;
  /** names of the secrets of the installation it may use; none: all */
  readonly secrets?: readonly string[];
  /** secrets of this sandbox alone, by name */
  readonly own_secrets?: Readonly<Record<string, {
    /** write-only */
    readonly value: string;
    /** `host`, `*.host`, an address, each with an optional `:port` */
    readonly allowed_hosts: readonly string[];
    /** default: headers, also inside `Authorization: Basic` */
    readonly surfaces?: readonly ("headers" | "query" | "path" | "body")[];
  }>>;
  /** name of the operator’s proxy that it goes out through; none: `default`, where there is one */
  readonly upstream?: string;
  /** an OCI image as its lowest layers; `from.layers` may lie above. Callers below `admin` get images that are here already */
  readonly image?: string;
  /** volumes and directories of the host that it has from its start on */
  readonly mounts?: readonly MountWish[];
  /** what isolates it; none: as the sandbox that it is made from, else as SQUASH_BACKEND says */
  readonly backend?: "chroot" | "vm";
  /** with `from.sandbox`, a microVM in QEMU: the new one goes on with the processes of the other, from its memory and on its disk as they are now; with `from.snapshot`, which was taken with `memory`: as they were then */
  readonly memory?: boolean;
};

export interface SandboxImage {
  /** variables of every command */
  readonly env: Readonly<Record<string, string>>;
  /** as the image says it; empty: root */
  readonly user: string;
  /** found in the image; null: its files have no such user */
  readonly uid: number | null;
  readonly gid: number | null;
  /** of that user */
  readonly home: string | null;
  /** where commands start */
  readonly workdir: string;
  /** what `squash run --image` starts where no command is named, with `cmd` behind it */
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly name: string;
  readonly id: string;
}

export interface SandboxPage {
  readonly items: readonly Sandbox[];
  /** `cursor` of the next page; null: there is none */
  readonly next: string | null;
}

export interface SandboxPolicy {
  readonly policy: Policy;
  /** what no sandbox’s policy can exceed; null where there is none */
  readonly ceiling: Policy | null;
  /** names of the secrets of the installation it may use, or `all` */
  readonly secrets: "all" | readonly string[];
  /** names of secrets of its own */
  readonly own_secrets: readonly string[];
  /** the hosts that may have them, by name; empty where their file can not be used */
  readonly own_secret_hosts: Readonly<Record<string, readonly string[]>>;
  /** name of the proxy that it goes out through; null: none */
  readonly upstream: string | null;
  /** false while the egress process does not answer or can not use this: then nothing is reached, and this holds when that is mended */
  readonly in_force: boolean;
  /** why it is not in force, and what mends that; null: it is */
  readonly pending: string | null;
}

export interface SandboxUsage {
  /** RFC 3339 with milliseconds, UTC */
  readonly at: string;
  /** processor time since the sandbox was started last, in microseconds */
  readonly cpu_us: number | null;
  /** of one processor, since the measurement before; null in the first one */
  readonly cpu_percent: number | null;
  /** as the limit counts it, with the cache of its files */
  readonly memory_bytes: number | null;
  /** processes and threads */
  readonly pids: number | null;
  /** of its writable layer, as measured last */
  readonly disk_bytes: number | null;
  /** files in it */
  readonly disk_inodes: number | null;
  /** of connections that have ended, since the egress process began */
  readonly network_in_bytes: number | null;
  /** the same towards the world */
  readonly network_out_bytes: number | null;
  /** that were begun, since the egress process began */
  readonly connections: number | null;
  /** that are open */
  readonly connections_open: number | null;
  /** processors it may use */
  readonly cpu_limit: number;
  readonly memory_limit_bytes: number;
  readonly pids_limit: number;
  readonly disk_limit_bytes: number;
  readonly disk_limit_inodes: number;
  /** of the last ten minutes, oldest first; every five seconds while it is used or asked for */
  readonly history: readonly ({
    /** RFC 3339 with milliseconds, UTC */
    readonly at: string;
    /** processor time since the sandbox was started last, in microseconds */
    readonly cpu_us: number | null;
    /** of one processor, since the measurement before; null in the first one */
    readonly cpu_percent: number | null;
    /** as the limit counts it, with the cache of its files */
    readonly memory_bytes: number | null;
    /** processes and threads */
    readonly pids: number | null;
    /** of its writable layer, as measured last */
    readonly disk_bytes: number | null;
    /** files in it */
    readonly disk_inodes: number | null;
    /** of connections that have ended, since the egress process began */
    readonly network_in_bytes: number | null;
    /** the same towards the world */
    readonly network_out_bytes: number | null;
    /** that were begun, since the egress process began */
    readonly connections: number | null;
    /** that are open */
    readonly connections_open: number | null;
  })[];
}

export interface Schedule {
  readonly name: string;
  readonly chat: string;
  readonly group: string;
  readonly text: string;
  readonly cron: string | null;
  readonly time_zone: string | null;
  readonly every_s: number | null;
  readonly at: string | null;
  /** `group`: its run has all that waits in the chat; `isolated`: the prompt alone. Default: "group" */
  readonly context: "group" | "isolated";
  /** what becomes of times that passed while there was no daemon. Default: "run_once" */
  readonly missed: "run_once" | "skip";
  /** `done`: no time is to come */
  readonly state: "active" | "paused" | "done";
  readonly next_at: string | null;
  readonly last_run: number | null;
  /** the group whose agent made it; null: a client of the API */
  readonly made_by: string | null;
  /** the group whose agent paused it; null: a client of the API */
  readonly paused_by: string | null;
  readonly created_at: string;
}

export interface ScheduleChange {
  /** what passes while it is paused is not missed */
  readonly paused: boolean;
}

export interface ScheduleCreate {
  readonly chat: string;
  /** one in its chat */
  readonly name: string;
  /** the prompt */
  readonly text: string;
  /** `minute hour day month weekday`; one of `cron`, `every_s`, `at` */
  readonly cron?: string;
  /** of `cron`, as in the IANA database; default `UTC` */
  readonly time_zone?: string;
  /** from when it is made */
  readonly every_s?: number;
  /** once */
  readonly at?: string;
  /** `group`: its run has all that waits in the chat; `isolated`: the prompt alone. Default: "group" */
  readonly context?: "group" | "isolated";
  /** what becomes of times that passed while there was no daemon. Default: "run_once" */
  readonly missed?: "run_once" | "skip";
}

export interface ScheduleRun {
  /** the time of the schedule */
  readonly due_at: string;
  /** when it was decided */
  readonly at: string;
  /** `skipped`: missed, or the run before still went on; `refused`: by tier or limit */
  readonly verdict: "started" | "skipped" | "refused";
  /** null: it came in time */
  readonly reason: string | null;
  readonly run: number | null;
  /** of the run; null: there is none, or it is no longer kept */
  readonly state: "queued" | "running" | "done" | "failed" | null;
}

export interface Secret {
  readonly name: string;
  /** what sandboxes see in the variable of this name */
  readonly placeholder: string;
  readonly allowed_hosts: readonly string[];
  /** where it is put in */
  readonly surfaces: readonly ("headers" | "query" | "path" | "body")[];
  /** where its value is refreshed; none: it has a fixed one */
  readonly token_url?: string;
}

export interface SecretChange {
  /** write-only */
  readonly value?: string;
  /** in place of `value`: an OAuth 2 credential whose access token is refreshed on the host */
  readonly oauth?: {
    /** where tokens are refreshed: https, or http on the host’s loopback */
    readonly token_url: string;
    readonly client_id: string;
    /** write-only; sent in the body */
    readonly client_secret?: string;
    /** write-only */
    readonly refresh_token: string;
    /** write-only; none: one is fetched at the first request */
    readonly access_token?: string;
    /** of `access_token`; none: when a host answers 401 */
    readonly expires_at?: string;
    /** how the endpoint takes the request; default: `form`, as RFC 6749 has it */
    readonly body?: "form" | "json";
  };
  /** default: a random one */
  readonly placeholder?: string;
  /** `host`, `*.host`, an address, each with an optional `:port` */
  readonly allowed_hosts?: readonly string[];
  /** default: headers, also inside `Authorization: Basic` */
  readonly surfaces?: readonly ("headers" | "query" | "path" | "body")[];
}

export interface Snapshot {
  readonly label: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly created_at: string;
  /** of its own file; a download may be larger where it is not whole */
  readonly size_bytes: number;
  /** of the memory and the disk that were saved with it, which are on this machine alone; null: none were */
  readonly memory_bytes: number | null;
  /** `remote`: only the bucket has it; a restore brings it */
  readonly location: "local" | "remote";
  /** false: its file holds what was written since the snapshot it was taken on */
  readonly whole: boolean;
  /** that snapshot; null where it is whole, or where that one was removed */
  readonly base: string | null;
  /** the sandbox was restored from it last */
  readonly active: boolean;
}

export interface SnapshotChange {
  /** its new name */
  readonly label?: string;
  /** each is set, or with null removed; the others stay */
  readonly labels?: Readonly<Record<string, string | null>>;
}

export interface SnapshotCreate {
  /** its name; none: YYYYMMDD-HHMMSS, UTC */
  readonly label?: string;
  /** whatever the client wants to find it by. Default: {} */
  readonly labels?: Readonly<Record<string, string>>;
  /** of a microVM in QEMU that runs: with its processes, so that `sandbox.create` with `memory` makes sandboxes that go on with them */
  readonly memory?: boolean;
}

export interface SnapshotPage {
  readonly items: readonly Snapshot[];
  /** `cursor` of the next page; null: there is none */
  readonly next: string | null;
}

export interface SnapshotRestore {
  readonly snapshot: string;
  /** of one that was taken with `memory`: the processes of then go on, on the disk of then */
  readonly memory?: boolean;
}

export interface SnapshotTaken {
  readonly label: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly created_at: string;
  /** of its own file; a download may be larger where it is not whole */
  readonly size_bytes: number;
  /** of the memory and the disk that were saved with it, which are on this machine alone; null: none were */
  readonly memory_bytes: number | null;
  /** `remote`: only the bucket has it; a restore brings it */
  readonly location: "local" | "remote";
  /** false: its file holds what was written since the snapshot it was taken on */
  readonly whole: boolean;
  /** that snapshot; null where it is whole, or where that one was removed */
  readonly base: string | null;
  /** the sandbox was restored from it last */
  readonly active: boolean;
  /** how long the sandbox stood still while its files were read */
  readonly pause_ms: number;
}

export interface SshKey {
  /** made by the daemon; no secret */
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scope: "exec" | "manage";
  /** without its comment */
  readonly public_key: string;
  /** as `ssh-keygen -l` shows it */
  readonly fingerprint: string;
  /** RFC 3339, UTC */
  readonly created_at: string;
  /** RFC 3339, UTC; null: it holds until it is removed */
  readonly expires_at: string | null;
  /** RFC 3339, UTC; null: never since the daemon started */
  readonly last_used_at: string | null;
}

export interface SshKeyCreate {
  /** what it is for; for people */
  readonly name: string;
  /** whose sandboxes it sees and makes */
  readonly owner: string;
  /** `manage`: also what a key of that scope may. Default: "exec" */
  readonly scope?: "exec" | "manage";
  /** a line as in a file `id_ed25519.pub`: `ssh-ed25519 AAAA… comment` */
  readonly public_key: string;
  /** RFC 3339, UTC; none: it holds until it is removed */
  readonly expires_at?: string | null;
}

export interface StandingApproval {
  readonly id: number;
  readonly rule: string | {
    readonly to: readonly string[];
    readonly ports?: readonly string[];
    readonly methods?: readonly string[];
    readonly paths?: readonly string[];
    readonly upgrades?: readonly string[];
  };
  readonly decided_at: string;
  readonly decided_by: string;
}

export interface Ticket {
  /** to be sent as `?ticket=` */
  readonly ticket: string;
  readonly path: string;
  /** RFC 3339 with milliseconds, UTC */
  readonly expires_at: string;
}

export interface TicketCreate {
  /** of the WebSocket or the stream of events that it is for, without a query */
  readonly path: string;
}

export interface Tier {
  /** saying something in a chat */
  readonly message: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** starting a run, by a message to a chat’s group */
  readonly start: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** seeing groups, chats, runs and what was said */
  readonly read: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** making groups and chats */
  readonly create: "allow" | "hold" | "deny";
  /** the tiers that groups made by agents may have; none: agents make no groups */
  readonly create_tiers: readonly string[];
  /** making schedules in a chat; pausing, resuming and removing those that its agents made there. Default: {"own":"deny","others":"deny"} */
  readonly schedule: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** the least time between two times of such a schedule, and before one that comes once. Default: 3600 */
  readonly schedule_every_s_min: number;
  /** what its groups’ sandboxes may connect to at most; none: nothing */
  readonly reach: readonly string[];
  /** which secrets its groups’ sandboxes may use at most */
  readonly secrets: "all" | readonly string[];
  /** how its groups may have directories of the host, of those that are listed. Default: "none" */
  readonly mounts: "none" | "ro" | "rw";
  /** how its groups’ runs have `/workspace/global`, the memory that all groups share. Default: "ro" */
  readonly global_memory: "none" | "ro" | "rw";
  /** runs at once, of all its groups. Default: 8 */
  readonly runs_max: number;
  /** whose runs begin first where several wait; a run that waits counts one more each minute. Default: 0 */
  readonly priority: number;
  /** a run of a group that says nothing else is ended when it takes longer. Default: 1800 */
  readonly timeout_s: number;
  /** … and when neither output nor an action came for so long. Default: 900 */
  readonly idle_timeout_s: number;
  /** so long the sandbox of a run that ended well is kept for the next run of its chat; 0: each run has a fresh one. Default: 0 */
  readonly warm_s: number;
  readonly name: string;
  readonly built_in: boolean;
}

export interface TierChange {
  /** saying something in a chat */
  readonly message: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** starting a run, by a message to a chat’s group */
  readonly start: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** seeing groups, chats, runs and what was said */
  readonly read: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** making groups and chats */
  readonly create: "allow" | "hold" | "deny";
  /** the tiers that groups made by agents may have; none: agents make no groups */
  readonly create_tiers: readonly string[];
  /** making schedules in a chat; pausing, resuming and removing those that its agents made there. Default: {"own":"deny","others":"deny"} */
  readonly schedule?: {
    readonly own: "allow" | "hold" | "deny";
    readonly others: "allow" | "hold" | "deny";
  };
  /** the least time between two times of such a schedule, and before one that comes once. Default: 3600 */
  readonly schedule_every_s_min?: number;
  /** what its groups’ sandboxes may connect to at most; none: nothing */
  readonly reach: readonly string[];
  /** which secrets its groups’ sandboxes may use at most */
  readonly secrets: "all" | readonly string[];
  /** how its groups may have directories of the host, of those that are listed. Default: "none" */
  readonly mounts?: "none" | "ro" | "rw";
  /** how its groups’ runs have `/workspace/global`, the memory that all groups share. Default: "ro" */
  readonly global_memory?: "none" | "ro" | "rw";
  /** runs at once, of all its groups. Default: 8 */
  readonly runs_max?: number;
  /** whose runs begin first where several wait; a run that waits counts one more each minute. Default: 0 */
  readonly priority?: number;
  /** a run of a group that says nothing else is ended when it takes longer. Default: 1800 */
  readonly timeout_s?: number;
  /** … and when neither output nor an action came for so long. Default: 900 */
  readonly idle_timeout_s?: number;
  /** so long the sandbox of a run that ended well is kept for the next run of its chat; 0: each run has a fresh one. Default: 0 */
  readonly warm_s?: number;
}

export interface VolumeCreate {
  readonly name: string;
  /** what its files may take; refused where this host can not hold it to that */
  readonly size_mb?: number;
  /** whatever the client wants to find it by */
  readonly labels?: Readonly<Record<string, string>>;
  /** a volume or a snapshot of one, which is copied */
  readonly from?: string;
}

export interface VolumeInfo {
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  /** what its files may take; null: nothing holds it */
  readonly size_mb: number | null;
  /** the volume that it was taken of; a snapshot is attached read-only */
  readonly snapshot_of: string | null;
  /** RFC 3339, UTC */
  readonly created_at: string;
  /** one sandbox for writing, or any number for reading */
  readonly attached_to: readonly ({
    readonly sandbox: string;
    readonly mount: string;
    readonly mode: "ro" | "rw";
  })[];
  readonly warnings: readonly ({
    readonly code: string;
    readonly message: string;
  })[];
}

export interface VolumeSnapshotCreate {
  readonly name: string;
  /** whatever the client wants to find it by */
  readonly labels?: Readonly<Record<string, string>>;
}

export interface Warning {
  readonly code: string;
  readonly message: string;
}

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly types: readonly ("sandbox.created" | "sandbox.updated" | "sandbox.paused" | "sandbox.resumed" | "sandbox.stopped" | "sandbox.restarted" | "sandbox.failed" | "sandbox.timed_out" | "sandbox.destroyed" | "snapshot.created" | "snapshot.removed" | "snapshot.updated" | "mount.attached" | "mount.detached" | "approval.requested" | "approval.decided" | "action.held" | "action.decided")[];
  readonly owner: string | null;
  readonly enabled: boolean;
  readonly created_at: string;
  /** events that are to be delivered */
  readonly pending: number;
  readonly last_success_at: string | null;
  readonly last_failure_at: string | null;
  /** of the last try; null: it was taken */
  readonly last_error: string | null;
  /** null: nothing failed, or nothing is tried any more */
  readonly next_attempt_at: string | null;
  /** events that were never taken, and are not tried any more */
  readonly given_up: number;
  /** events with smaller ids may have been removed before they could be delivered */
  readonly missed_before: number | null;
}

export interface WebhookChange {
  /** http or https; private and reserved addresses only as SQUASH_WEBHOOK_RANGES says */
  readonly url?: string;
  /** types of events; none: all of them */
  readonly types?: readonly ("sandbox.created" | "sandbox.updated" | "sandbox.paused" | "sandbox.resumed" | "sandbox.stopped" | "sandbox.restarted" | "sandbox.failed" | "sandbox.timed_out" | "sandbox.destroyed" | "snapshot.created" | "snapshot.removed" | "snapshot.updated" | "mount.attached" | "mount.detached" | "approval.requested" | "approval.decided" | "action.held" | "action.decided")[];
  /** what happens while it is not enabled is not sent later */
  readonly enabled?: boolean;
}

export interface WebhookCreate {
  /** http or https; private and reserved addresses only as SQUASH_WEBHOOK_RANGES says */
  readonly url: string;
  /** types of events; none: all of them. Default: [] */
  readonly types?: readonly ("sandbox.created" | "sandbox.updated" | "sandbox.paused" | "sandbox.resumed" | "sandbox.stopped" | "sandbox.restarted" | "sandbox.failed" | "sandbox.timed_out" | "sandbox.destroyed" | "snapshot.created" | "snapshot.removed" | "snapshot.updated" | "mount.attached" | "mount.detached" | "approval.requested" | "approval.decided" | "action.held" | "action.decided")[];
  /** only events of this owner; none: of all */
  readonly owner?: string;
  /** none: one is made */
  readonly secret?: string;
}

export interface WebhookMade {
  readonly id: string;
  readonly url: string;
  readonly types: readonly ("sandbox.created" | "sandbox.updated" | "sandbox.paused" | "sandbox.resumed" | "sandbox.stopped" | "sandbox.restarted" | "sandbox.failed" | "sandbox.timed_out" | "sandbox.destroyed" | "snapshot.created" | "snapshot.removed" | "snapshot.updated" | "mount.attached" | "mount.detached" | "approval.requested" | "approval.decided" | "action.held" | "action.decided")[];
  readonly owner: string | null;
  readonly enabled: boolean;
  readonly created_at: string;
  /** events that are to be delivered */
  readonly pending: number;
  readonly last_success_at: string | null;
  readonly last_failure_at: string | null;
  /** of the last try; null: it was taken */
  readonly last_error: string | null;
  /** null: nothing failed, or nothing is tried any more */
  readonly next_attempt_at: string | null;
  /** events that were never taken, and are not tried any more */
  readonly given_up: number;
  /** events with smaller ids may have been removed before they could be delivered */
  readonly missed_before: number | null;
  /** signs what is sent; it is told here and never again */
  readonly secret: string;
}

export interface WebhookTest {
  readonly delivered: boolean;
  /** of the answer; null: there was none */
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number;
}

/** What each operation takes and answers. */
export interface Operations {
  'sandbox.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: SandboxCreate;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'sandbox.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** one or more, separated by commas */
      readonly state?: string;
      /** `key=value` or `key`, separated by commas: all of them */
      readonly label?: string;
      readonly name?: string;
      readonly owner?: string;
    };
    readonly body: undefined;
    readonly answer: SandboxPage;
    readonly event: never;
  };
  'sandbox.run': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** Default: {} */
      readonly sandbox?: SandboxCreate;
      readonly exec: ProcessExec;
    };
    readonly answer: {
      /** which is gone */
      readonly sandbox: string;
      readonly result: ProcessResult;
    };
    readonly event: never;
  };
  'sandbox.get': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'sandbox.update': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: SandboxChange;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'sandbox.destroy': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** what becomes of one that ephemeral mode can not save; aside (scope admin): it is removed, and its directory kept as unsaved/ID.… in the data directory. Default: "refuse" */
      readonly unsaved?: "refuse" | "aside";
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'sandbox.pause': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** Default: "memory" */
      readonly keep?: "memory" | "files";
    };
    readonly answer: Sandbox;
    readonly event: never;
  };
  'sandbox.resume': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'process.exec': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ProcessExec;
    readonly answer: ProcessResult;
    readonly event: never;
  };
  'process.start': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ProcessStart;
    readonly answer: ProcessInfo;
    readonly event: never;
  };
  'process.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** only these */
      readonly state?: "running" | "ended";
      /** only those with this tag */
      readonly tag?: string;
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly ProcessInfo[];
      /** `cursor` of the next page; null: there is none */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'process.get': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: ProcessInfo;
    readonly event: never;
  };
  'process.output': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: {
      /** position in the output to begin behind, default 0; `Last-Event-ID` wins */
      readonly after?: number;
      /** `false`: only what is kept now; default `true` */
      readonly follow?: boolean;
      /** only this one */
      readonly streams?: "stdout" | "stderr";
      /** default by `Accept`: `application/x-ndjson` for lines of JSON, else events */
      readonly format?: "sse" | "ndjson";
      /** `true`: the process waits while this reader is 64 KiB behind; needs the scope `exec` */
      readonly stall?: boolean;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: {
      readonly type: "process";
      readonly process: ProcessInfo;
    } | {
      readonly type: "output";
      /** bytes of output up to the end of this event: what `after` resumes behind */
      readonly seq: number;
      readonly stream: "stdout" | "stderr" | "pty";
      /** where the bytes are UTF-8 */
      readonly text?: string;
      /** where they are not */
      readonly base64?: string;
    } | {
      readonly type: "gap";
      /** bytes of output up to the end of this event: what `after` resumes behind */
      readonly seq: number;
      /** so many bytes before `seq`, of both streams, are not kept any more */
      readonly bytes: number;
    } | {
      readonly type: "exit";
      /** bytes of output up to the end of this event: what `after` resumes behind */
      readonly seq: number;
      readonly process: ProcessInfo;
    } | {
      readonly type: "error";
      readonly code: string;
      readonly message: string;
      readonly remedy: string;
    };
  };
  'process.stdin': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: {
      /** `true`: nothing comes behind it; to a terminal ^D is sent */
      readonly eof?: boolean;
    };
    readonly body: undefined;
    readonly answer: {
      /** taken of this request; a process that has ended or closed its input takes nothing and is sent all */
      readonly bytes: number;
    };
    readonly event: never;
  };
  'process.resize': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      readonly rows: number;
      readonly columns: number;
    };
    readonly answer: undefined;
    readonly event: never;
  };
  'process.signal': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ProcessSignal;
    readonly answer: undefined;
    readonly event: never;
  };
  'process.wait': {
    readonly path: {
      readonly id: string;
      /** its number, or `tag:NAME` for the latest one with that tag */
      readonly process: string;
    };
    readonly query: {
      /** Default: "exit" */
      readonly for?: "exit" | "log" | "port";
      /** for `log`: a text that stands in the line */
      readonly text?: string;
      /** for `log`: the same, where `*` stands for anything */
      readonly pattern?: string;
      /** for `log`: only output behind this position, default 0: what is kept counts */
      readonly after?: number;
      /** for `port`: on the sandbox’s loopback, which is dialled; needs the scope `exec` */
      readonly port?: number;
      /** default 60,000 */
      readonly timeout_ms?: number;
    };
    readonly body: undefined;
    readonly answer: ProcessWait;
    readonly event: never;
  };
  'context.create': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ContextCreate;
    readonly answer: Context;
    readonly event: never;
  };
  'context.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Context[];
    };
    readonly event: never;
  };
  'context.get': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Context;
    readonly event: never;
  };
  'context.remove': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'context.run': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: CellRun;
    readonly answer: Execution;
    readonly event: never;
  };
  'context.output': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
      readonly cell: string;
    };
    readonly query: {
      /** `seq` of the last event that was seen; `Last-Event-ID` wins */
      readonly after?: number;
      /** `false`: only what is kept now; default `true` */
      readonly follow?: boolean;
      /** default by `Accept`: `application/x-ndjson` for lines of JSON, else events */
      readonly format?: "sse" | "ndjson";
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: {
      readonly type: "cell";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      readonly context: string;
      readonly language: "python" | "javascript" | "typescript";
    } | {
      readonly type: "stdout";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      readonly text: string;
    } | {
      readonly type: "stderr";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      readonly text: string;
    } | {
      readonly type: "result";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      /** the value of the cell; what it displayed by the way is not */
      readonly is_main: boolean;
      readonly text?: string;
      readonly html?: string;
      readonly markdown?: string;
      readonly latex?: string;
      readonly svg?: string;
      /** base64 */
      readonly png?: string;
      /** base64 */
      readonly jpeg?: string;
      /** a data frame: its first 100 rows as `columns`, `index`, `data`, and how many `rows` it has */
      readonly json?: unknown;
      /** by media type */
      readonly other?: Readonly<Record<string, string>>;
      /** formats that were too large */
      readonly omitted?: readonly ({
        readonly format: string;
        readonly bytes: number;
      })[];
    } | {
      readonly type: "clear";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
    } | {
      readonly type: "exception";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      readonly name: string;
      readonly message: string;
      /** lines of plain text; empty where there is none */
      readonly traceback: string;
    } | {
      readonly type: "end";
      /** what `after` resumes behind */
      readonly seq: number;
      /** its number; numbers rise and have gaps */
      readonly cell: number;
      readonly status: "ok" | "error" | "interrupted" | "timeout" | "kernel_died";
      readonly execution_count: number | null;
      readonly duration_ms: number;
      /** what was left out past the limits; all 0: nothing */
      readonly cut: {
        readonly stdout_bytes: number;
        readonly stderr_bytes: number;
        readonly results: number;
      };
    } | {
      readonly type: "gap";
      /** bytes of output up to the end of this event: what `after` resumes behind */
      readonly seq: number;
      /** so many bytes before `seq`, of both streams, are not kept any more */
      readonly bytes: number;
    } | {
      readonly type: "error";
      readonly code: string;
      readonly message: string;
      readonly remedy: string;
    };
  };
  'context.interrupt': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'context.restart': {
    readonly path: {
      readonly id: string;
      /** `default-python`, `default-javascript` and `default-typescript` are made when a cell is first run in them */
      readonly context: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Context;
    readonly event: never;
  };
  'file.read': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'file.write': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      /** octal, such as "644" */
      readonly mode?: string;
      readonly uid?: number;
      readonly gid?: number;
      /** `true`: make the directories that are missing */
      readonly parents?: boolean;
      readonly append?: boolean;
      readonly offset?: number;
      readonly truncate?: boolean;
    };
    readonly body: undefined;
    readonly answer: File;
    readonly event: never;
  };
  'file.change': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: {
      /** octal, such as "644" */
      readonly mode?: string;
      readonly uid?: number;
      readonly gid?: number;
      /** it is cut, or lengthened with zeros; of one file, without `recursive` */
      readonly size?: number;
      /** when it was last changed; RFC 3339, UTC; of one file, without `recursive` */
      readonly modified_at?: string;
      /** Default: false */
      readonly recursive?: boolean;
    };
    readonly answer: File;
    readonly event: never;
  };
  'file.remove': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      /** `true`: with everything in it */
      readonly recursive?: boolean;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'file.stat': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      /** `true`: what a symlink names, not the link */
      readonly follow?: boolean;
    };
    readonly body: undefined;
    readonly answer: File;
    readonly event: never;
  };
  'file.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** 1, the default: the directory itself */
      readonly depth?: number;
    };
    readonly body: undefined;
    readonly answer: FilePage;
    readonly event: never;
  };
  'file.glob': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** `*` and `?` within a name, `**` for any number of directories, `[a-z]`, `{a,b}`; a leading dot must be written */
      readonly pattern?: string;
    };
    readonly body: undefined;
    readonly answer: FilePage;
    readonly event: never;
  };
  'file.search': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      readonly text?: string;
      /** `true`: `text` is a POSIX extended regular expression */
      readonly regex?: boolean;
      /** `true`: of ASCII letters */
      readonly ignore_case?: boolean;
      /** `*` and `?` within a name, `**` for any number of directories, `[a-z]`, `{a,b}`; a leading dot must be written */
      readonly pattern?: string;
      /** at most so many, default 100 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: FileMatches;
    readonly event: never;
  };
  'file.make_directory': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: {
      /** absolute; `{"base64": …}` where it is not UTF-8 */
      readonly path: string | {
        readonly base64: string;
      };
      /** octal, such as "644" */
      readonly mode?: string;
      readonly uid?: number;
      readonly gid?: number;
      /** Default: false */
      readonly parents?: boolean;
    };
    readonly answer: File;
    readonly event: never;
  };
  'file.move': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: {
      /** absolute; `{"base64": …}` where it is not UTF-8 */
      readonly from: string | {
        readonly base64: string;
      };
      /** absolute; `{"base64": …}` where it is not UTF-8 */
      readonly to: string | {
        readonly base64: string;
      };
      /** Default: false */
      readonly parents?: boolean;
      /** `false`: only where nothing stands at `to`. Default: true */
      readonly overwrite?: boolean;
    };
    readonly answer: File;
    readonly event: never;
  };
  'file.copy': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: {
      /** absolute; `{"base64": …}` where it is not UTF-8 */
      readonly from: string | {
        readonly base64: string;
      };
      /** absolute; `{"base64": …}` where it is not UTF-8 */
      readonly to: string | {
        readonly base64: string;
      };
      /** Default: false */
      readonly parents?: boolean;
      /** `false`: only where nothing stands at `to`. Default: true */
      readonly overwrite?: boolean;
      /** Default: false */
      readonly recursive?: boolean;
    };
    readonly answer: File;
    readonly event: never;
  };
  'file.link': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: {
      /** the new name */
      readonly path: string | {
        readonly base64: string;
      };
      /** a symlink’s text; with `hard` the absolute path of the file */
      readonly target: string;
      /** Default: false */
      readonly hard?: boolean;
      /** Default: false */
      readonly parents?: boolean;
    };
    readonly answer: File;
    readonly event: never;
  };
  'file.watch': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      readonly recursive?: boolean;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: Readonly<Record<string, unknown>> | FileEvent | Readonly<Record<string, unknown>> | Readonly<Record<string, unknown>>;
  };
  'file.pack': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'file.unpack': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** absolute */
      readonly path?: string;
      /** instead of `path`: the bytes of one that is not UTF-8 */
      readonly path_base64?: string;
      /** do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root */
      readonly as?: string;
      readonly uid?: number;
      readonly gid?: number;
      /** `true`: make the directories that are missing */
      readonly parents?: boolean;
      readonly keep_owner?: boolean;
      readonly entries_max?: number;
      readonly bytes_max?: number;
    };
    readonly body: undefined;
    readonly answer: {
      readonly entries: number;
      readonly bytes: number;
    };
    readonly event: never;
  };
  'port.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: PortList;
    readonly event: never;
  };
  'port.set': {
    readonly path: {
      readonly id: string;
      readonly port: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: PortChange;
    readonly answer: Port;
    readonly event: never;
  };
  'port.url': {
    readonly path: {
      readonly id: string;
      readonly port: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: PortLinkWish;
    readonly answer: PortLink;
    readonly event: never;
  };
  'port.wait': {
    readonly path: {
      readonly id: string;
      readonly port: string;
    };
    readonly query: {
      /** how long (30000 unless given); then the answer is `port_unreachable` */
      readonly timeout_ms?: number;
    };
    readonly body: undefined;
    readonly answer: Port;
    readonly event: never;
  };
  'module.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
    };
    readonly body: undefined;
    readonly answer: ModulePage;
    readonly event: never;
  };
  'module.get': {
    readonly path: {
      readonly name: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: ModuleDetails;
    readonly event: never;
  };
  'module.import': {
    readonly path: {
      readonly name: string;
    };
    readonly query: {
      /** `true`: another file of this name is replaced; sandboxes keep what they were stacked from */
      readonly replace?: boolean;
    };
    readonly body: undefined;
    readonly answer: Module;
    readonly event: never;
  };
  'module.remove': {
    readonly path: {
      readonly name: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'module.describe': {
    readonly path: {
      readonly name: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ModuleManifest;
    readonly answer: ModuleDetails;
    readonly event: never;
  };
  'module.verify': {
    readonly path: {
      readonly name: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: ModuleDetails;
    readonly event: never;
  };
  'module.download': {
    readonly path: {
      readonly name: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'module.gc': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: GcStart;
    readonly answer: GcAnswer;
    readonly event: never;
  };
  'module.activate': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ModuleActivate;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'image.pull': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** `python:3.12-slim`, `ghcr.io/owner/name@sha256:…` */
      readonly reference: string;
      /** how long the answer may wait for the end; ask again while it is `pulling`. Default: 30000 */
      readonly wait_ms?: number;
      /** `true`: the registry is asked even if an image of this name is here; a tag may name another by now. Default: false */
      readonly again?: boolean;
    };
    readonly answer: ImagePull;
    readonly event: never;
  };
  'image.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** with the steps of builds, whose names begin with `squash.build/` */
      readonly all?: boolean;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Image[];
      readonly next: string | null;
    };
    readonly event: never;
  };
  'image.import': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** what it is to be called; none: as the archive calls it */
      readonly name?: string;
      /** of several images in the archive, the one of this tag or name */
      readonly pick?: string;
    };
    readonly body: undefined;
    readonly answer: Image;
    readonly event: never;
  };
  'image.get': {
    readonly path: {
      /** a name, with each `/` as `%2F`; the defaults of container tools hold */
      readonly image: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Image;
    readonly event: never;
  };
  'image.remove': {
    readonly path: {
      /** a name, with each `/` as `%2F`; the defaults of container tools hold */
      readonly image: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'image.commit': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** whose files it has */
      readonly sandbox: string;
      /** as they were then; none: as they are now */
      readonly snapshot?: string;
      /** what it is called; an image of this name here is replaced */
      readonly name: string;
      /** to what the sandbox has from the image that it was made from. Default: {} */
      readonly changes?: {
        /** set or added */
        readonly env?: Readonly<Record<string, string>>;
        /** set or added */
        readonly labels?: Readonly<Record<string, string>>;
        readonly user?: string;
        readonly workdir?: string;
        readonly entrypoint?: readonly string[];
        readonly cmd?: readonly string[];
      };
    };
    readonly answer: Image;
    readonly event: never;
  };
  'image.push': {
    readonly path: {
      /** a name, with each `/` as `%2F`; the defaults of container tools hold */
      readonly image: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** what it is to be called there, with a tag: `ghcr.io/owner/name:1`; none: what it is called here */
      readonly destination?: string;
      /** how long the answer may wait for the end; ask again while it is `pushing`. Default: 30000 */
      readonly wait_ms?: number;
    };
    readonly answer: ImagePush;
    readonly event: never;
  };
  'image.export': {
    readonly path: {
      /** a name, with each `/` as `%2F`; the defaults of container tools hold */
      readonly image: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'image.flatten': {
    readonly path: {
      /** a name, with each `/` as `%2F`; the defaults of container tools hold */
      readonly image: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** `NNN-name` */
      readonly module: string;
      /** `true`: take the place of a module of this name. Default: false */
      readonly replace?: boolean;
    };
    readonly answer: ModuleDetails;
    readonly event: never;
  };
  'snapshot.create': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: SnapshotCreate;
    readonly answer: SnapshotTaken;
    readonly event: never;
  };
  'snapshot.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** `key=value` or `key`, separated by commas: all of them */
      readonly label?: string;
    };
    readonly body: undefined;
    readonly answer: SnapshotPage;
    readonly event: never;
  };
  'snapshot.get': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Snapshot;
    readonly event: never;
  };
  'snapshot.update': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: SnapshotChange;
    readonly answer: Snapshot;
    readonly event: never;
  };
  'snapshot.remove': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'snapshot.restore': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: SnapshotRestore;
    readonly answer: Sandbox;
    readonly event: never;
  };
  'snapshot.diff': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: {
      /** `base`: the modules that it lies on; `current`: the sandbox as it is now, whose changes since are told; or another snapshot, whose changes up to this one are told. Default: "base" */
      readonly against?: "base" | "current" | string;
      /** at most so many, default 1000 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
    };
    readonly body: undefined;
    readonly answer: DiffPage;
    readonly event: never;
  };
  'snapshot.download': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'snapshot.upload': {
    readonly path: {
      readonly id: string;
      readonly label: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Snapshot;
    readonly event: never;
  };
  'bucket.get': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Bucket;
    readonly event: never;
  };
  'bucket.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** what their keys begin with. Default: "" */
      readonly prefix?: string;
    };
    readonly body: undefined;
    readonly answer: BucketList;
    readonly event: never;
  };
  'bucket.remove': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      readonly key?: string;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'bucket.push': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      readonly module?: string;
      /** whose snapshot */
      readonly sandbox?: string;
      readonly snapshot?: string;
      /** what is there under its name and is another goes */
      readonly replace?: boolean;
    };
    readonly answer: undefined;
    readonly event: never;
  };
  'bucket.pull': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      readonly module?: string;
      /** whose snapshot */
      readonly sandbox?: string;
      readonly snapshot?: string;
    };
    readonly answer: undefined;
    readonly event: never;
  };
  'volume.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: VolumeCreate;
    readonly answer: VolumeInfo;
    readonly event: never;
  };
  'volume.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** `key=value` or `key`, separated by commas: all of them */
      readonly label?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly VolumeInfo[];
      readonly next: string | null;
    };
    readonly event: never;
  };
  'volume.get': {
    readonly path: {
      /** name or id */
      readonly volume: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: VolumeInfo;
    readonly event: never;
  };
  'volume.remove': {
    readonly path: {
      /** name or id */
      readonly volume: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'volume.snapshot': {
    readonly path: {
      /** name or id */
      readonly volume: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: VolumeSnapshotCreate;
    readonly answer: VolumeInfo;
    readonly event: never;
  };
  'mount.attach': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: MountWish;
    readonly answer: MountInfo;
    readonly event: never;
  };
  'mount.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly MountInfo[];
      readonly next: null;
    };
    readonly event: never;
  };
  'mount.check': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: MountCheck;
    readonly answer: MountCheckAnswer;
    readonly event: never;
  };
  'mount.detach': {
    readonly path: {
      readonly id: string;
      readonly mount: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'change.list': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** a directory of the host that the sandbox has at level `cow` */
      readonly place?: string;
      /** at most so many, default 1000 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly place: string;
      /** by path below the place; of what was removed as it was. May be few while there is a next page */
      readonly items: readonly ({
        /** `removed` tells of a directory without what was in it */
        readonly change: "added" | "changed" | "removed";
        /** bytes that are no UTF-8 are U+FFFD */
        readonly path: string;
        readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
        /** permission bits, octal */
        readonly mode: string;
        /** 0 of a directory */
        readonly size_bytes: number;
        /** why it is brought to the host only where that is asked for; null: it is not held */
        readonly held: string | null;
      })[];
      /** `cursor` of the next page; null: that is all */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'change.file': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** a directory of the host that the sandbox has at level `cow` */
      readonly place?: string;
      /** as the list of changes has it */
      readonly path?: string;
    };
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'change.apply': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: {
      /** a directory of the host that the sandbox has at level `cow` */
      readonly place: string;
      /** as the list has them, a directory before what is in it */
      readonly paths: readonly string[];
      /** also what is held back. Default: false */
      readonly held?: boolean;
      /** also links that lead out of the place. Default: false */
      readonly outside?: boolean;
      /** also what somebody else has changed on the host since the sandbox began. Default: false */
      readonly overwrite?: boolean;
    };
    readonly answer: {
      readonly items: readonly ({
        readonly path: string;
        /** `same`: the host has it already; `conflict`: the host’s was changed since the sandbox began; else see `reason` */
        readonly outcome: "applied" | "same" | "held" | "conflict" | "refused";
        readonly reason: string | null;
      })[];
    };
    readonly event: never;
  };
  'sandbox.paths': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** only those with a larger `id` */
      readonly after?: number;
      /** at most so many, default 1000 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: RefusedPaths;
    readonly event: never;
  };
  'policy.get': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: SandboxPolicy;
    readonly event: never;
  };
  'policy.set': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: PolicyChange;
    readonly answer: SandboxPolicy;
    readonly event: never;
  };
  'policy.test': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: PolicyTest;
    readonly answer: PolicyTestAnswer;
    readonly event: never;
  };
  'policy.learn': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: PolicyLearnAnswer;
    readonly event: never;
  };
  'policy.presets': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: readonly PolicyPreset[];
    readonly event: never;
  };
  'egress.decisions': {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly kind?: "dns" | "connection" | "request";
      /** `refused`: denied or blocked */
      readonly verdict?: "allowed" | "denied" | "blocked" | "refused";
      /** a name, or `*.example.com` for names below it */
      readonly host?: string;
      /** `true`: server-sent events, each decision as it comes */
      readonly follow?: boolean;
      /** only rows with a larger `id` */
      readonly after?: number;
      /** at most so many, default 100 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: EgressDecisions;
    readonly event: EgressDecision;
  };
  'approval.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      readonly state?: "pending" | "allowed" | "denied" | "timed_out" | "withdrawn";
      readonly sandbox?: string;
    };
    readonly body: undefined;
    readonly answer: ApprovalPage;
    readonly event: never;
  };
  'approval.get': {
    readonly path: {
      readonly approval: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Approval;
    readonly event: never;
  };
  'approval.decide': {
    readonly path: {
      readonly approval: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ApprovalDecision;
    readonly answer: Approval;
    readonly event: never;
  };
  'approval.standing_list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: readonly StandingApproval[];
    readonly event: never;
  };
  'approval.standing_remove': {
    readonly path: {
      readonly standing: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'secret.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: readonly Secret[];
    readonly event: never;
  };
  'secret.set': {
    readonly path: {
      readonly secret: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: SecretChange;
    readonly answer: Secret;
    readonly event: never;
  };
  'secret.remove': {
    readonly path: {
      readonly secret: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'key.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: KeyCreate;
    readonly answer: KeyCreated;
    readonly event: never;
  };
  'key.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** only this owner’s */
      readonly owner?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Key[];
      /** `cursor` of the next page; null: there is none */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'key.self': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: KeySelf;
    readonly event: never;
  };
  'key.get': {
    readonly path: {
      readonly key: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Key;
    readonly event: never;
  };
  'key.remove': {
    readonly path: {
      readonly key: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'ssh_key.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: SshKeyCreate;
    readonly answer: SshKey;
    readonly event: never;
  };
  'ssh_key.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** only this owner’s */
      readonly owner?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly SshKey[];
      /** `cursor` of the next page; null: there is none */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'ssh_key.get': {
    readonly path: {
      readonly key: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: SshKey;
    readonly event: never;
  };
  'ssh_key.remove': {
    readonly path: {
      readonly key: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'owner.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Owner[];
      /** `cursor` of the next page; null: there is none */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'owner.quota': {
    readonly path: {
      readonly owner: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Owner;
    readonly event: never;
  };
  'owner.set_quota': {
    readonly path: {
      readonly owner: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: QuotaChange;
    readonly answer: Owner;
    readonly event: never;
  };
  'audit.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `next` of the page before */
      readonly cursor?: string;
      /** only what this owner’s keys asked */
      readonly owner?: string;
      /** only about this sandbox */
      readonly sandbox?: string;
      /** only this operation, such as `sandbox.create` */
      readonly operation?: string;
      /** only what was decided so */
      readonly decision?: "allowed" | "refused" | "held";
      /** `agents`: what agents of groups asked for; else requests of clients */
      readonly of?: "requests" | "agents";
      /** only from this time on */
      readonly since?: string;
    };
    readonly body: undefined;
    readonly answer: {
      /** newest first */
      readonly items: readonly AuditEntry[];
      /** `cursor` of what is older; there may be one behind a page that is empty, as each looks at so many bytes */
      readonly next: string | null;
    };
    readonly event: never;
  };
  'ticket.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: TicketCreate;
    readonly answer: Ticket;
    readonly event: never;
  };
  'sandbox.usage': {
    readonly path: {
      readonly id: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: SandboxUsage;
    readonly event: never;
  };
  'event.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      readonly sandbox?: string;
      /** comma list of types */
      readonly type?: string;
      /** a key of an owner sees no other owner’s */
      readonly owner?: string;
      /** only events with a larger `id`; 0: from the oldest that is kept */
      readonly after?: number;
      /** `next` of the page before; the same as `after` */
      readonly cursor?: number;
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `true`: server-sent events, each as it happens */
      readonly follow?: "true" | "false";
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Event[];
      /** `cursor` of the next page; null: this is the last one */
      readonly next: string | null;
      /** events with smaller ids were removed to stay in bounds; 0: none were */
      readonly removed_before: number;
    };
    readonly event: Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | Event | {
      /** events with smaller ids were removed */
      readonly removed_before: number;
    };
  };
  'webhook.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: WebhookCreate;
    readonly answer: WebhookMade;
    readonly event: never;
  };
  'webhook.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Webhook[];
      readonly next: null;
    };
    readonly event: never;
  };
  'webhook.get': {
    readonly path: {
      readonly webhook: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Webhook;
    readonly event: never;
  };
  'webhook.update': {
    readonly path: {
      readonly webhook: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: WebhookChange;
    readonly answer: Webhook;
    readonly event: never;
  };
  'webhook.remove': {
    readonly path: {
      readonly webhook: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'webhook.test': {
    readonly path: {
      readonly webhook: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: WebhookTest;
    readonly event: never;
  };
  'tier.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Tier[];
      readonly next: null;
    };
    readonly event: never;
  };
  'tier.set': {
    readonly path: {
      readonly tier: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: TierChange;
    readonly answer: Tier;
    readonly event: never;
  };
  'tier.remove': {
    readonly path: {
      readonly tier: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'group.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: GroupCreate;
    readonly answer: Group;
    readonly event: never;
  };
  'group.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Group[];
      readonly next: null;
    };
    readonly event: never;
  };
  'group.get': {
    readonly path: {
      readonly group: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Group;
    readonly event: never;
  };
  'group.update': {
    readonly path: {
      readonly group: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: GroupChange;
    readonly answer: Group;
    readonly event: never;
  };
  'group.remove': {
    readonly path: {
      readonly group: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'group.runs': {
    readonly path: {
      readonly group: string;
    };
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly GroupRun[];
      readonly next: null;
    };
    readonly event: never;
  };
  'group.actions': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      readonly state?: "done" | "held" | "denied" | "failed";
      /** only of this one’s agents */
      readonly group?: string;
      /** at most so many, default 100 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly GroupAction[];
      readonly next: null;
    };
    readonly event: never;
  };
  'group.decide': {
    readonly path: {
      readonly number: number;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: GroupActionDecision;
    readonly answer: GroupAction;
    readonly event: never;
  };
  'chat.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: ChatCreate;
    readonly answer: Chat;
    readonly event: never;
  };
  'chat.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Chat[];
      readonly next: null;
    };
    readonly event: never;
  };
  'chat.update': {
    readonly path: {
      readonly chat: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ChatChange;
    readonly answer: Chat;
    readonly event: never;
  };
  'chat.remove': {
    readonly path: {
      readonly chat: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'chat.reset': {
    readonly path: {
      readonly chat: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'chat.message': {
    readonly path: {
      readonly chat: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ChatMessage;
    readonly answer: ChatMessageTaken;
    readonly event: never;
  };
  'chat.read': {
    readonly path: {
      readonly chat: string;
    };
    readonly query: {
      /** only later ones */
      readonly after?: number;
      /** at most so many, default 100 */
      readonly limit?: number;
      /** `true`: server-sent events, each as it is said */
      readonly follow?: "true" | "false";
    };
    readonly body: undefined;
    readonly answer: ChatSaidPage;
    readonly event: {
      readonly after: number;
    } | ChatSaid;
  };
  'schedule.create': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: ScheduleCreate;
    readonly answer: Schedule;
    readonly event: never;
  };
  'schedule.list': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: {
      /** only of this one */
      readonly chat?: string;
      /** only of this one’s chats */
      readonly group?: string;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly Schedule[];
      readonly next: null;
    };
    readonly event: never;
  };
  'schedule.get': {
    readonly path: {
      readonly chat: string;
      readonly schedule: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: Schedule;
    readonly event: never;
  };
  'schedule.update': {
    readonly path: {
      readonly chat: string;
      readonly schedule: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: ScheduleChange;
    readonly answer: Schedule;
    readonly event: never;
  };
  'schedule.remove': {
    readonly path: {
      readonly chat: string;
      readonly schedule: string;
    };
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: undefined;
    readonly event: never;
  };
  'schedule.runs': {
    readonly path: {
      readonly chat: string;
      readonly schedule: string;
    };
    readonly query: {
      /** at most so many, default 100 */
      readonly limit?: number;
    };
    readonly body: undefined;
    readonly answer: {
      readonly items: readonly ScheduleRun[];
      readonly next: null;
    };
    readonly event: never;
  };
  'daemon.info': {
    readonly path: Readonly<Record<string, never>>;
    readonly query: Readonly<Record<string, never>>;
    readonly body: undefined;
    readonly answer: DaemonInfo;
    readonly event: never;
  };
}
