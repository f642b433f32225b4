/**
 * The wire format between the daemon and its C programs: frame header, frame types, field tags.
 *
 * This table is the only definition. `tools/gen-frames.ts` writes `native/common/frames.gen.h` from it,
 * and `contract/guest/vectors.json` holds byte strings that the C and the TypeScript codec must both
 * accept or refuse. Everything is little-endian.
 *
 *   frame   = u32 payload length | u8 type | u8 zero | u16 zero | payload
 *   payload = raw bytes (data frames) or fields (all others)
 *   field   = u16 tag | u32 length | bytes       an integer is a field of exactly 8 bytes (u64)
 *
 * A sandbox's PID 1 stands inside the boundary: every frame it sends is hostile input to the daemon.
 */

export const frameHeaderBytes = 8;
/**
 * What the frames mean, as the launcher says it in `started` and in `relayHello`, PID 1 in the answer to `info`. It rises when a part of an earlier release can't
 * work with one of this; a field that may be left out is no reason. Who says nothing speaks 1. `contract/protocols.json` has the
 * commit of each, from which the tests upgrade.
 */
export const protocolVersion = 1;
/** Protocols that this release's daemon and egress process work with. */
export const protocolsKnown: readonly number[] = [1];
/** Largest payload of any frame. A larger length in a header ends the connection. */
export const framePayloadBytesMax = 262_144;
/** Largest payload a sender puts in one data frame. */
export const frameDataBytesMax = 65_536;
/** Most fields one payload may carry (argv and env are repeated fields). */
export const frameFieldsMax = 8_192;
/** Output a guest keeps per stream until it is acknowledged: the flow-control window. */
export const guestWindowBytes = 65_536;
/** Largest integer in a field: what a JavaScript number holds exactly. Both codecs refuse a larger one. */
export const integerMax = 9_007_199_254_740_991;

/** What one PID 1 holds at most. The engine's own limits are lower; these bound PID 1's memory and descriptors. */
export const guestLimits = {
  /** Commands that run. Each holds up to five descriptors and 192 KiB of rings. */
  execsLiveMax: 256,
  /** Commands known, ended ones included; past this the oldest ended one is forgotten. */
  execsKnownMax: 1024,
  connectionsMax: 1024,
  /** Every file operation but a watch is a child of PID 1 while it runs. */
  fileWorkersMax: 64,
  /** Watches. One child of PID 1 serves all; each costs it a socket and, where nobody reads, 16 KiB of kernel memory. */
  fileWatchesMax: 2048,
  dialsMax: 256,
  /** Pipes of ended commands whose background children still write: drained to nowhere. */
  drainedPipesMax: 256,
  execIdBytesMax: 128,
  /** PATH_MAX with its NUL. */
  pathBytesMax: 4096,
  terminalCellsMax: 4096,
  openFilesMax: 1_048_576,
  /** 24.8 days, a positive `int`: no command is meant to run longer under a timer. */
  timeoutMsMax: 2_147_483_647,
  /** Directories one watch covers; the kernel's own limit per user is usually far above. */
  watchedDirectoriesMax: 8192,
  /** … and all together: 10 MB of names. */
  watchedPlacesMax: 131_072,
  /** Directories one inside the other that a list, a search, a copy or an archive enters: with one-letter names PATH_MAX ends there. */
  walkDepthMax: 2048,
  /** Distinct pairs of a path and what was wanted that a trace keeps, and the bytes of their paths. */
  tracedPathsMax: 10_000,
  tracedBytesMax: 1_048_576,
} as const;

/** What one squash-vmm holds at most. */
export const vmmLimits = {
  /** Each holds two descriptors and, while somebody reads slowly, up to 128 KiB. */
  connectionsMax: 1024,
  commandsMax: 16,
  /** Words of one command, and the bytes of all together. */
  wordsMax: 512,
  commandsBytesMax: 131_072,
  /** A guest that has not taken a connection by then is given up. */
  guestMs: 30_000,
  controlMs: 10_000,
  guestPort: 1024,
  /** The guest connects to this port of the host once, when it takes connections. */
  readyPort: 1,
  consoleBytes: 65_536,
} as const;

/**
 * How much of the data directory's file system is to stay free: so many percent of it within these bounds. Below it no image
 * upper gets more room. Enough for what a host's log and database write until somebody looks.
 */
export const lowWater = { percent: 2, mibMin: 32, mibMax: 2048 } as const;

/** `errorCode` in an `error` frame of PID 1. */
export const guestErrorCodes = [
  /** The request is malformed or not allowed here: a fault of the client. */
  'bad_request',
  /** A limit of `guestLimits` is reached. */
  'limit',
  /** `errno` says why the command could not be started. */
  'exec_failed',
  /** An exec with this id is known already. */
  'exec_exists',
  /** No exec has this id. */
  'exec_unknown',
  /** The offsets of an attach lie outside of what PID 1 still keeps. */
  'offset_gone',
  /** `errno` says why a file operation failed. */
  'file_failed',
  /** `errno` says why the port could not be reached. */
  'dial_failed',
  /** A command of a VMM ended in a failure, or its guest can't be reached; `errno` may say why. */
  'vmm_failed',
] as const;
export type GuestErrorCode = (typeof guestErrorCodes)[number];

export const frameTypes = {
  // Requests to PID 1: the first frame of a connection says what the connection is.
  exec: 0x01,
  attach: 0x02,
  execList: 0x03,
  info: 0x04,
  /** Of a sandbox that traces paths: an `entry` for each behind `offset` that was refused, as many as one answer holds. */
  pathList: 0x05,
  // Client to PID 1, on an exec connection.
  stdin: 0x10,
  stdinEof: 0x11,
  resize: 0x12,
  signal: 0x13,
  /**
   * Client to guest: absolute offsets of stdout and stderr that it has stored, the guest may forget them.
   * Guest to client: `offset`, the bytes of stdin that left the guest's ring. Without it stdin that nobody reads
   * would block the acknowledgments behind it.
   */
  ack: 0x14,
  /** The client has stored the exit: the guest may forget the exec. */
  release: 0x15,
  // Requests to PID 1: files and ports.
  fileRead: 0x20,
  fileWrite: 0x21,
  fileStat: 0x22,
  fileList: 0x23,
  fileMakeDirectory: 0x24,
  fileMove: 0x25,
  fileRemove: 0x26,
  fileWatch: 0x27,
  fileCopy: 0x28,
  fileAttributes: 0x29,
  fileLink: 0x2a,
  fileSearch: 0x2b,
  /** Answered with a tar in `data` frames. */
  fileArchive: 0x2c,
  /** Followed by a tar in `data` frames and an `end`. */
  fileExtract: 0x2d,
  /** Answered when what was written to the path's file system is on its disk. */
  fileSync: 0x2e,
  /** Of a microVM's guest: answered with what was written in it, an overlay's upper, as a tar in `data` frames. All commands stand still meanwhile. */
  fileUpper: 0x2f,
  dial: 0x30,
  /**
   * Of a microVM that goes on from another one's memory, a template's or that of one that ran: answered when it is a machine of its own,
   * and its PID 1 takes connections.
   */
  guestRenew: 0x31,
  /** Of a microVM's guest: its commands may have so many bytes less, in all, than they began with. Refused with ENOMEM where they use more. */
  guestMemory: 0x32,
  // Requests to squash-vmm, PID 1 of a sandbox whose program is a VMM. `ok` answers each; behind it all but the first carry raw bytes.
  vmmStart: 0x38,
  vmmGuest: 0x39,
  vmmControl: 0x3a,
  vmmConsole: 0x3b,
  /** What the VMM writes to the first connection that it makes to its control socket's path with `_memory` behind it, from now on. */
  vmmMemory: 0x3c,
  /** What the file `path` of the VMM's root holds now, without its holes: `native/vmm/disk.h`. */
  vmmDisk: 0x3d,
  /** As `vmmControl`, to take the device from the guest by which it is reached, or to give it: nobody is let through as long as it lasts. */
  vmmDevice: 0x3e,
  /** As `vmmDisk`, and the file has no name any more. */
  vmmTaken: 0x3f,
  // Requests to squash-launch.
  sandboxStart: 0x40,
  sandboxStop: 0x41,
  sandboxList: 0x42,
  sandboxWatch: 0x43,
  sandboxFreeze: 0x44,
  sandboxThaw: 0x45,
  sandboxStats: 0x46,
  sandboxLimit: 0x47,
  upperCreate: 0x48,
  upperUsage: 0x49,
  treeRemove: 0x4a,
  imagePack: 0x4b,
  imageUnpack: 0x4c,
  hostProbe: 0x4d,
  shutdown: 0x4e,
  // Egress (docs/internals/egress.md): to squash-launch, then between the relay and the egress process.
  egressAttach: 0x4f,
  dialOut: 0x50,
  streamOut: 0x51,
  groupJoin: 0x52,
  imageMerge: 0x53,
  /** From root, with the launcher's end of a new privileged helper's socket along. */
  helperAttach: 0x54,
  treeDiff: 0x55,
  /** One volume or directory of the host, into a sandbox that runs and out of it. */
  mountAttach: 0x56,
  mountDetach: 0x57,
  volumeCopy: 0x58,
  /** A layer of an image, which the daemon has written as a tar, into a squashfs file. */
  imagePackTar: 0x59,
  /** Answered with a tar in `data` frames. */
  treeTar: 0x5a,
  /** What a box has written over a directory of the host, brought there name by name; an `entry` for each. */
  treeApply: 0x5b,
  /** One regular file that a box has written over a directory of the host, in `data` frames. */
  treeFile: 0x5c,
  relayHello: 0x60,
  relayStream: 0x61,
  connectionOpen: 0x62,
  connectionFirst: 0x63,
  connectionClosed: 0x64,
  dnsQuery: 0x65,
  connectionHold: 0x70,
  connectionRelease: 0x71,
  connectionReset: 0x72,
  dnsAnswer: 0x73,
  // Answers.
  started: 0x81,
  stdout: 0x82,
  stderr: 0x83,
  exit: 0x84,
  error: 0x85,
  entry: 0x86,
  data: 0x88,
  end: 0x89,
  event: 0x8a,
  ok: 0x8b,
  progress: 0x8c,
  dialed: 0x8d,
  /** Of a command with jobs: its main process stands still until SIGCONT. */
  stopped: 0x8e,
} as const;

export type FrameTypeName = keyof typeof frameTypes;

/** Frames whose payload is raw bytes; all others carry fields. */
export const dataFrames = ['stdin', 'stdout', 'stderr', 'data'] as const satisfies readonly FrameTypeName[];

/** `bytes` fields may hold any byte, paths and argv included; `u64` fields are 8 bytes. */
export const fieldTags = {
  execId: { tag: 1, type: 'bytes' },
  arg: { tag: 2, type: 'bytes' },
  env: { tag: 3, type: 'bytes' },
  cwd: { tag: 4, type: 'bytes' },
  uid: { tag: 5, type: 'u64' },
  gid: { tag: 6, type: 'u64' },
  tty: { tag: 7, type: 'u64' },
  rows: { tag: 8, type: 'u64' },
  columns: { tag: 9, type: 'u64' },
  stdinMode: { tag: 10, type: 'u64' },
  timeoutMs: { tag: 11, type: 'u64' },
  openFilesMax: { tag: 12, type: 'u64' },
  signo: { tag: 13, type: 'u64' },
  stdoutOffset: { tag: 14, type: 'u64' },
  stderrOffset: { tag: 15, type: 'u64' },
  pid: { tag: 16, type: 'u64' },
  exitCode: { tag: 17, type: 'u64' },
  exitSignal: { tag: 18, type: 'u64' },
  timedOut: { tag: 19, type: 'u64' },
  userUs: { tag: 20, type: 'u64' },
  systemUs: { tag: 21, type: 'u64' },
  rssMaxKib: { tag: 22, type: 'u64' },
  errorCode: { tag: 23, type: 'bytes' },
  errno: { tag: 24, type: 'u64' },
  message: { tag: 25, type: 'bytes' },
  running: { tag: 26, type: 'u64' },
  version: { tag: 27, type: 'bytes' },
  path: { tag: 30, type: 'bytes' },
  target: { tag: 31, type: 'bytes' },
  offset: { tag: 32, type: 'u64' },
  length: { tag: 33, type: 'u64' },
  mode: { tag: 34, type: 'u64' },
  fileType: { tag: 35, type: 'u64' },
  size: { tag: 36, type: 'u64' },
  mtimeMs: { tag: 37, type: 'u64' },
  recursive: { tag: 38, type: 'u64' },
  createParents: { tag: 39, type: 'u64' },
  followLinks: { tag: 40, type: 'u64' },
  port: { tag: 41, type: 'u64' },
  host: { tag: 42, type: 'bytes' },
  change: { tag: 43, type: 'bytes' },
  depth: { tag: 44, type: 'u64' },
  /** Whose a file is to be; `uid` and `gid` in a file request say as whom it is done. */
  owner: { tag: 45, type: 'u64' },
  ownerGroup: { tag: 46, type: 'u64' },
  atomic: { tag: 47, type: 'u64' },
  append: { tag: 48, type: 'u64' },
  exclusive: { tag: 49, type: 'u64' },
  inode: { tag: 50, type: 'u64' },
  /** When the inode last changed, in microseconds: with `inode` and `size` it tells one state of a file from another. */
  changedUs: { tag: 51, type: 'u64' },
  pattern: { tag: 52, type: 'bytes' },
  entriesMax: { tag: 53, type: 'u64' },
  regex: { tag: 54, type: 'u64' },
  ignoreCase: { tag: 55, type: 'u64' },
  line: { tag: 56, type: 'u64' },
  column: { tag: 57, type: 'u64' },
  // squash-launch
  forGood: { tag: 58, type: 'u64' },
  makesUpper: { tag: 59, type: 'u64' },
  name: { tag: 60, type: 'bytes' },
  instance: { tag: 61, type: 'u64' },
  hostname: { tag: 62, type: 'bytes' },
  lower: { tag: 63, type: 'bytes' },
  upper: { tag: 64, type: 'bytes' },
  upperKind: { tag: 65, type: 'bytes' },
  bytesMax: { tag: 66, type: 'u64' },
  inodesMax: { tag: 67, type: 'u64' },
  memoryBytesMax: { tag: 68, type: 'u64' },
  cpuMilli: { tag: 69, type: 'u64' },
  pidsMax: { tag: 70, type: 'u64' },
  shmBytesMax: { tag: 71, type: 'u64' },
  socket: { tag: 72, type: 'bytes' },
  warning: { tag: 73, type: 'bytes' },
  status: { tag: 74, type: 'u64' },
  bytes: { tag: 75, type: 'u64' },
  inodes: { tag: 76, type: 'u64' },
  oomKills: { tag: 77, type: 'u64' },
  cpuUs: { tag: 78, type: 'u64' },
  pauseUs: { tag: 79, type: 'u64' },
  percent: { tag: 80, type: 'u64' },
  capability: { tag: 81, type: 'bytes' },
  detail: { tag: 82, type: 'bytes' },
  hosts: { tag: 83, type: 'bytes' },
  resolvConf: { tag: 84, type: 'bytes' },
  exclude: { tag: 85, type: 'bytes' },
  // One `entry` per capability of the host (`contract/src/capability.ts`): name in `capability`, state in
  // `status` (0 ok, 1 weaker, 2 missing); `weaker` and `remedy` are left out where there is none.
  required: { tag: 86, type: 'u64' },
  found: { tag: 87, type: 'bytes' },
  choice: { tag: 88, type: 'bytes' },
  weaker: { tag: 89, type: 'bytes' },
  remedy: { tag: 90, type: 'bytes' },
  upperKills: { tag: 91, type: 'u64' },
  protocol: { tag: 92, type: 'u64' },
  against: { tag: 93, type: 'bytes' },
  after: { tag: 94, type: 'bytes' },
  // Five lines: `ro` or `rw`; `host`, the kind of upper, or the kind of a place (native/launch/places.h); device and inode of what is the
  // host's; where it lies; where it is to be seen.
  mount: { tag: 95, type: 'bytes' },
  // Of an image: its room is set aside on the disk when it is made.
  reserved: { tag: 96, type: 'u64' },
  // Of a pack: the index written at the snapshot that this one may lie on, where to write this one's, and whether it lies there.
  known: { tag: 97, type: 'bytes' },
  index: { tag: 98, type: 'bytes' },
  isChange: { tag: 99, type: 'u64' },
  hasIndex: { tag: 113, type: 'u64' },
  // Egress. `address` is 4 or 16 bytes in network order; `peer` only means something to the relay that sent it.
  connection: { tag: 100, type: 'u64' },
  address: { tag: 101, type: 'bytes' },
  firstBytes: { tag: 102, type: 'bytes' },
  ended: { tag: 103, type: 'u64' },
  bytesUp: { tag: 104, type: 'u64' },
  bytesDown: { tag: 105, type: 'u64' },
  reason: { tag: 106, type: 'u64' },
  peer: { tag: 107, type: 'bytes' },
  // Files again.
  text: { tag: 108, type: 'bytes' },
  /** 1: a bound of the request ended the answer before all was told. */
  truncated: { tag: 109, type: 'u64' },
  keepOwner: { tag: 110, type: 'u64' },
  /** 1: an `entry` about the opened file comes before its bytes. */
  describe: { tag: 112, type: 'u64' },
  /** 1: of links that lead out of the directory, too. */
  outside: { tag: 114, type: 'u64' },
  /** 1: what git obeys, too. */
  held: { tag: 115, type: 'u64' },
  // Traces of paths: 1 in a start asks for one. In an `entry` of a trace `changedUs` is when it was refused first, in its `end` `offset` is
  // where the next answer goes on.
  tracesPaths: { tag: 116, type: 'u64' },
  intent: { tag: 117, type: 'u64' },
  /** Of a start, 1: its programs may make namespaces of their own. */
  allowsNesting: { tag: 118, type: 'u64' },
  /** Of a start and of an `entry` about a sandbox, 1: its PID 1 is squash-vmm. */
  vmm: { tag: 119, type: 'u64' },
  // To squash-vmm; `socket` is the guest's. `control` is where the VMM listens. `command`, one or more: `once`; `make PATH`, once where
  // PATH is not there; `stay`; or `stay PATH`, where the next one waits until somebody listens at the socket PATH; `files PATH`: the same, with the
  // sandbox's capabilities. Then its words, a line each.
  control: { tag: 120, type: 'bytes' },
  command: { tag: 121, type: 'bytes' },
  // To a microVM that was copied: what nobody else knows, the host's clock, and the `squash.` words that it was not told when it was started.
  seed: { tag: 122, type: 'bytes' },
  wallMs: { tag: 123, type: 'u64' },
  settings: { tag: 124, type: 'bytes' },
  /** Of a VMM's start, none or more: a device of the host that its root has besides, by its name (`tun`, `kvm`). With `tun` a tap is made. */
  vmmDevice: { tag: 125, type: 'bytes' },
} as const satisfies Record<string, { tag: number; type: 'bytes' | 'u64' }>;

export type FieldName = keyof typeof fieldTags;

/** Values of `stdinMode`. */
export const stdinModes = { none: 0, pipe: 1 } as const;
/** Values of `tty`. With `jobs` Ctrl-Z stops the command, and `stopped` tells of it; an earlier release knows the others. */
export const ttyModes = { none: 0, plain: 1, jobs: 2 } as const;
/** Values of `fileType`. */
export const fileTypes = { file: 1, directory: 2, symlink: 3, fifo: 4, socket: 5, device: 6 } as const;
/** Values of `intent`. */
export const pathIntents = { look: 1, read: 2, write: 3, execute: 4 } as const;
