/**
 * Every limit of the daemon in one place, each with the reason for its number.
 * Units stand last in the names. What PID 1 and the launcher hold themselves to is in
 * `contract/src/guest/frames.ts`; what an operator may set is configuration and only has its bounds here.
 */
import { contextLimits } from './context-limits.ts';
import { imageLimits } from './image-limits.ts';

export const limits = {
  // Commands.
  /** A shell line; the original's bound. Longer programs belong in a file. */
  cmdBytesMax: 65_536,
  /** The kernel's PATH_MAX leaves more, but the original promised 512 and nothing real needs more. */
  workdirBytesMax: 512,
  /** Shell exec: the original's default and clamp. */
  execTimeoutSDefault: 300,
  execTimeoutSMin: 1,
  execTimeoutSMax: 3_600,
  /** Jobs: two hours by default, a day at most, as in the original. */
  jobTimeoutSDefault: 7_200,
  jobTimeoutSMax: 86_400,
  /** From TERM to KILL at a timeout or a killed job: long enough to write a state file. */
  execKillGraceMs: 2_000,
  /**
   * After timeout and grace a guest that has not reported the end is taken for broken and the sandbox is
   * restarted. A guest starved of its CPU share may be seconds late; a hostile one gains only these.
   */
  execTimeoutSlackMs: 5_000,
  /** Commands at once in one sandbox: one socket and one process group each. Fewer than PID 1's own limit, which counts those as well whose last output is being read. */
  execsRunningMax: 240,
  /** Operations and execs that may wait while a sandbox is created or restarted. More is a client in a loop. */
  sandboxWaitersMax: 64,
  /** How long an exec waits for a sandbox that is being started before it is told to come again. */
  sandboxReadyWaitMs: 60_000,

  // Output.
  /** Per stream in an answer: the original's number. */
  answerStreamBytesMax: 65_536,
  /** Per stream in the log of a command: enough for a test run. */
  storedStreamBytesMax: 1_048_576,
  /** A job's log keeps the last this many bytes: a server that logs for a day stays readable at its end. */
  jobLogBytesMax: 4_194_304,
  /** … and this many lines, so that empty lines do not fill the database with rows. */
  jobLogLinesMax: 65_536,
  /** A longer line is cut into numbered pieces. Half the guest's window, so that a cut always frees room. */
  jobLineBytesMax: 32_768,
  /** Output waits at most this long for its transaction: one commit for many small writes that nobody follows. */
  outputFlushMs: 50,
  /** … or until this much is collected: half the guest's window keeps the command writing meanwhile. */
  outputFlushBytes: 32_768,
  /** Followed output is stored at once, then not for this many times as long: a fiftieth of the daemon's time. */
  outputFollowRest: 50,
  /** Output held for a stream client that reads slowly; then the command stalls. */
  sessionBufferBytesMax: 65_536,

  // Processes of `/v1`.
  /** Output kept of one process unless it says another number: a test run, or the last hour of a server. */
  processOutputBytesDefault: 1_048_576,
  /** … and at most: it is answered by a unary exec in one piece of JSON. */
  processOutputBytesMax: 4_194_304,
  /** Kept of all running processes of one sandbox; past it each keeps `processOutputBytesLeast`. */
  sandboxOutputBytesMax: 67_108_864,
  /** The same for all sandboxes together: what they may add to squash.db beside the history. */
  daemonOutputBytesMax: 1_073_741_824,
  /** Kept of a process where the sum is used up: the guest's window, so that a follower that keeps up misses nothing. */
  processOutputBytesLeast: 65_536,
  /** Pieces of output that are kept of one process: one that writes its streams by turns makes a row for each piece. */
  processPiecesMax: 16_384,
  /** Output of one stream is added to the last row up to this size: a command that writes byte by byte makes no row per byte. */
  processPieceBytesMin: 4_096,
  /** Read from the store at a time for one follower. */
  processReadBytes: 131_072,
  /** How long the first bytes of a character wait for the rest of it before they are sent as they are. */
  processCharacterMs: 100,
  /** A name for a process: it stands in addresses and tables. */
  processTagBytesMax: 128,
  /** Standard input that a process does not read is waited with for so long, then its sender is told. */
  processStdinMs: 10_000,
  /** Requests that wait with input for one process. */
  processStdinWaitersMax: 16,
  /** A wait for a process ends after this long, as an exec does. */
  processWaitMsDefault: 60_000,
  processWaitMsMax: 3_600_000,
  /** A pattern to wait for, and the longest line that is held against it. */
  processPatternBytesMax: 1_024,
  processLineBytesMax: 65_536,
  /** Between two looks at a port that does not listen yet; doubles up to the second. */
  processPortMsMin: 20,
  processPortMsMax: 500,

  // Idempotency.
  /** How long the answer to a key is kept: longer than any client's retries. */
  idempotencyMs: 86_400_000,
  /** Keys kept per sandbox: as many as commands in its history. */
  idempotencyKeysMax: 1_000,
  idempotencyKeyBytesMax: 255,

  // Tickets, and WebSockets that are refused.
  /** From its issue to its use: a page opens its WebSocket at once. */
  ticketMs: 30_000,
  /** Tickets that wait for their use, of all callers. */
  ticketsMax: 1_024,
  /** An address that a ticket is for: an id, a tag and what stands between, in percent signs. */
  ticketPathBytesMax: 1_024,
  /** For a client to take the message that says why its WebSocket is refused. */
  refusalMs: 5_000,

  /** A new daemon asks each PID 1 what runs in it, before it serves: an honest one answers in milliseconds. */
  takeOverMs: 15_000,

  // History.
  /** Finished commands kept per sandbox; older ones go, their numbers are never used again. */
  execHistoryMax: 1_000,
  /** Stored output of the finished commands of one sandbox: 1,000 commands of 2 MiB would be 2 GiB. */
  execHistoryBytesMax: 33_554_432,

  // Layers.
  /** Inodes of one layer: a whole desktop with development packages has a fifth of it. */
  layerInodesMax: 2_000_000,
  /** The table of extended attributes of one layer, unpacked: thousands of files with capabilities take some hundred KB. */
  layerAttributeBytesMax: 16_777_216,

  // Sandboxes.
  sandboxesMaxDefault: 100,
  sandboxesMax: 10_000,
  /** Modules in one sandbox. With a chain of snapshots all lowers stay far below overlayfs's 500. */
  layersMax: 32,
  /** Snapshots stacked on each other: restore, change, snapshot, restore … adds one each time. */
  snapshotChainMax: 24,
  /** Kept per sandbox; each is a file of up to the upper's size. */
  snapshotsMax: 256,
  ownerBytesMax: 256,
  taskBytesMax: 4_096,
  /** For people to tell sandboxes apart: longer ones break every table. */
  sandboxNameCharsMax: 64,
  /** Labels of one sandbox, and their sizes: E2B's and Deno's clients use a handful; together with the rest a row stays small. */
  labelsMax: 32,
  labelKeyCharsMax: 64,
  labelValueBytesMax: 256,
  /** Variables of all commands of a sandbox: they take a part of each command's frame, whose rest is the command's own. */
  sandboxVariablesMax: 256,
  sandboxEnvironmentBytesMax: 32_768,
  /** Shorter, and a client that thinks for a moment finds its sandbox gone. */
  idleTimeoutSMin: 5,
  /** In one page of a list. */
  pageItemsMax: 1_000,
  pageItemsDefault: 100,

  // Files of a sandbox.
  /** Ids that a file may belong to are below it: the largest stands for "no change". */
  fileIdMax: 4_294_967_295,
  /** What is read of a sandbox’s /etc/passwd to find a user: some ten thousand lines. */
  passwdBytesMax: 1_048_576,
  /** Directories one inside the other; deeper ones have longer paths than can be named. */
  fileDepthMax: 2_048,
  /** PATH_MAX. */
  linkTargetCharsMax: 4_095,
  /** Of the text or expression that is searched for: it travels in an address. */
  searchTextCharsMax: 4_096,
  /** Read by one search: a repository of a million lines is a tenth of it, and it is over in seconds. */
  searchBytesMax: 1_073_741_824,
  /** Of a line in a search's answer: a thousand of them stay below half a megabyte. */
  searchLineBytesMax: 512,
  /** Entries of an archive that is unpacked: a layer's bound. */
  archiveEntriesMax: 2_000_000,
  /** In one sandbox at once, together below PID 1's `fileWorkersMax`: transfers, which may be as slow as their clients, … */
  fileTransfersMax: 32,
  /** … and everything else, which waits for its turn; more that wait are a client in a loop. */
  fileOperationsMax: 24,
  fileOperationsWaitingMax: 1_024,
  /** Watches of all sandboxes: each holds a connection and up to 80 KiB where its client does not read. */
  watchesMax: 1_024,
  /** Differences in one page: each is some hundred bytes and a frame of the launcher's. */
  diffItemsMax: 10_000,
  diffItemsDefault: 1_000,
  /** A page goes on behind a path, which is at most so long, and sent in base64. */
  diffCursorBytesMax: 4_096,
  cpuMin: 0.01,
  cpuMax: 1_024,
  memoryMbMin: 8,
  memoryMbMax: 4_194_304,
  /** Room that a start is taken to need until its memory can be measured: PID 1, its tables and a first command; a microVM's monitor and guest. */
  startMemoryBytes: { chroot: 16_777_216, vm: 268_435_456 },
  /** A hundred times what the host has: more is no bound. */
  overcommitPercentMax: 10_000,
  /** Ten years: a number that overflows no timer. */
  lifetimeSMax: 315_360_000,
  /** Processes and threads in a sandbox: a parallel build fits, a fork bomb is over in milliseconds. */
  sandboxPidsMax: 1_024,
  /** `/dev/shm`: what container engines give; it counts as the sandbox's memory besides. */
  sandboxShmBytesMax: 67_108_864,
  /** Open files per process: databases and browsers ask for 65,536; more only feeds loops over descriptors. */
  sandboxOpenFilesMax: 65_536,
  /** One inode per this many bytes of the upper's limit: a tree of node_modules has files of 8 to 10 KB. */
  upperBytesPerInode: 8_192,
  /** On top of 1.05 × the upper's limit: tables of a squashfs that holds as many files as there are inodes. */
  snapshotOverheadBytes: 16_777_216,
  /** Sandboxes started at once after a reboot: each start is some processes; two cores gain nothing from more. */
  startsAtOnceMax: 4,
  /** A sandbox whose PID 1 ends this often within `restartWindowMs` is left alone as `failed`. */
  restartsMax: 5,
  restartWindowMs: 60_000,
  /** Wait before the second restart in the window; doubles each time. The first restart does not wait. */
  restartDelayMs: 100,
  /** After PID 1 is gone its sockets deliver what is left and close at once; a run that has not ended then is ended. */
  runSettleMs: 2_000,
  /** The reaper looks at least this often: Node's timers can't wait for weeks. */
  reaperIntervalMs: 10_000,
  /** Until a removal that failed is tried again; doubles each time up to the second. */
  removalAgainMs: 1_000,
  removalAgainMsMax: 30_000,
  /** A start waits so long for removals that an earlier daemon began: most take milliseconds, one may never end. */
  removalResumeMs: 5_000,
  /** Age at which a used upper is measured again. */
  upperUsageAgeMs: 3_000,
  /** A fresh sandbox is measured this soon: it does not show zero for seconds, and a burst of creates has no second one behind it. */
  upperUsageFirstMs: 1_000,
  /** Measuring takes at most one part in this many of the time: a tree of a million files is not walked without end. */
  upperUsageDutyCycle: 20,
  /**
   * A sandbox's change is in its `sandbox.json` after this long; the database has it at once. Whoever loses the
   * database and the daemon together within it loses what changed in it.
   */
  shadowDelayMs: 1_000,
  /**
   * What is committed and not said to be on the disk (a new sandbox, a command's record) is there after this long: a power
   * cut takes no more than the last second, and a busy daemon pays one sync a second for it.
   */
  logSyncMs: 1_000,
  /** Uppers measured at once. */
  upperUsagesAtOnceMax: 2,

  // Keys and quotas.
  /** Each is held in memory, some hundred bytes; a key for each of a large company's people and programs. */
  keysMax: 10_000,
  /** When a key was last used is written at most this often: a look for keys that nobody needs asks for days. */
  keyUseMs: 60_000,
  /** How often what is open is looked at for keys that hold no more; it ends at the second look that finds one. */
  keyLookMs: 1_000,
  /** Bounds of what a quota can say: more than any machine has, and sums stay exact. */
  quotaMbMax: 1_000_000_000,
  quotaCpuMax: 1_000_000,
  quotaExecsMax: 1_000_000,

  // The audit.
  /** One file: some 40,000 lines. With the number of files 128 MiB at most: weeks of a busy team's calls. */
  auditFileBytesMax: 16_777_216,
  auditFilesMax: 8,
  /** A line: its parts are bounded, this is what they can come to where all is escaped. */
  auditLineBytesMax: 16_384,
  /**
   * Refusals at the gate get lines so often, and so many at once. Whoever may not ask at all turns the files over in ten days
   * at the soonest, and a burst of somebody's typing errors is told in full.
   */
  auditRefusedPerS: 0.5,
  auditRefusedBurst: 100,
  /** Until a file that could not be opened or written is tried again, and between two lines of the log about it. */
  auditAgainMs: 1_000,
  auditToldMs: 60_000,
  /** Read at a time, from the end. */
  auditChunkBytes: 65_536,
  /** Looked through for one page: a tenth of a second of the daemon's time, in pieces of less than a millisecond. */
  auditScanBytesMax: 16_777_216,
  // Events.
  /**
   * Events kept, of all owners together: a hundred sandboxes an hour, made and destroyed, for four days. A receiver that was away
   * over a weekend misses nothing. With the next two numbers they take at most 40 MB.
   */
  eventsMax: 20_000,
  /** Of one text in an event: a reason fits, the whole of an error is in the log. */
  eventTextCharsMax: 256,
  /** Of all that an event says beside its type and sandbox. */
  eventDataCharsMax: 1_536,
  /** Owners of whom it is known where their events begin; those beyond are told of a gap that others have. */
  eventGapsMax: 1_000,
  /** In one answer: some hundred kilobytes. */
  eventsPageMax: 1_000,
  /** Read at a time for a follower: what one that does not read holds in memory. */
  eventsFollowedPage: 64,
  /** A list of every type there is fits several times. */
  eventTypesCharsMax: 1_024,

  // Webhooks.
  /** Each has a worker, and at most one connection. An operator has a handful; more receivers belong behind one. */
  webhooksMax: 64,
  webhookUrlCharsMax: 2_048,
  /** From the begin of a try to the end of the answer: receivers are told to answer first and work then. */
  webhookAnswerMs: 15_000,
  /** One of two tries of a name server. */
  webhookLookupMs: 3_000,
  /** Of an answer; only its status counts, and one that does not end is cut. */
  webhookAnswerBytesMax: 65_536,
  /** Behind the first failure; doubles with each up to the second: a restart costs seconds, a receiver that is away one try in ten minutes. */
  webhookPauseMs: 1_000,
  webhookPauseMsMax: 600_000,
  /** While a receiver fails, events older than this are given up: a night or a day's repair loses nothing. */
  webhookTryMs: 86_400_000,

  // Usage.
  /** Between two samples of a sandbox in use; E2B's step, so that what reads its metrics reads ours. */
  usageSampleMs: 5_000,
  /** Kept of them: 120 samples of ten numbers, 10 KB for each sandbox that was in use in that time. */
  usageHistoryMs: 600_000,
  /** A sandbox that a client used, or whose usage somebody asked for, is sampled for so long: two looks at a dashboard. */
  usageLatelyMs: 120_000,
  /** One whose commands wait is sampled this often: a thousand servers without requests cost 20 measurements a second at most. */
  usageWaitingMs: 60_000,
  /** One that used a hundredth of a processor since its last sample is at work, and sampled on. */
  usageBusyCpuUs: 50_000,
  /** Who asks in a loop gets an answer of this age. */
  usageFreshMs: 1_000,

  // A full disk.
  /**
   * Room in reserve: SQLite's log before it is written over (4 MiB), and once more for what a start writes beside it
   * (sockets, shadow files, the egress process's own log).
   */
  reserveBytes: 8_388_608,
  /** Less room than this, and a start gives up the reserve first: a log's first pages and some directories need it. */
  reserveFreeBytesMin: 1_048_576,
  /** Between two looks whether there is room for it again. */
  reserveLookMs: 10_000,
  /** Less room than this, and an error of SQLite's files is the full disk's: its shared index takes 32 KiB at a time. */
  databaseFreeBytesMin: 65_536,

  // Daemon.
  /** SIGTERM: requests in progress may take this long. */
  shutdownMs: 30_000,
  /** Log lines that a sandbox can cause, per sandbox, kind and minute; the rest is counted. */
  guestLogLinesMax: 10,
  guestLogWindowMs: 60_000,
  /** Callers of the guest log remembered for the rate; the oldest are forgotten. */
  guestLogKeysMax: 4_096,

  // The daemon's start.
  /** Who asks before a start whether the port is free holds it for some milliseconds. One that is really taken is refused so much later. */
  listenWaitMs: 1_000,

  // The launcher.
  /** How often it is asked whether it still answers, and how long the answer may take: its loop waits for nothing. */
  launcherLookMs: 5_000,
  launcherLookAnswerMs: 3_000,
  /**
   * One that has answered nothing for so long hangs, and is ended. Longer than the egress process's: with it end all
   * commands. The launcher waits as long for the privileged helper, whose longest work is a file system on a slow disk.
   */
  launcherHungMs: 60_000,
  /** The same at a daemon's start: nobody uses it through this daemon yet, and `serve --detach` waits a minute for all of it. */
  launcherStartHungMs: 20_000,

  // The egress process.
  /** Its memory: 10,000 open connections and the tables of 100 sandboxes stay below half of it. */
  egressMemoryBytesMax: 1_073_741_824,
  /** … and of that V8's own: the rest is buffers of sockets. */
  egressHeapMb: 512,
  /** A daemon with `SQUASH_IDLE_EXIT_S` starts it so long behind the begin of its first command, and after so long where there is none. */
  egressBehindCommandMs: 200,
  egressWantedMs: 1_000,
  /** From its start to its first answer: Node's own start on a busy machine, and the database's check. */
  egressStartMs: 30_000,
  /** … and waited for so many times: emulated and crowded machines take minutes. Then it hangs and is ended. */
  egressStartWaitsMax: 10,
  /** One request to it. The longest is a sync of all sandboxes. */
  egressAnswerMs: 30_000,
  /** Between two looks at a process that does not answer, or two tries to start one; doubles up to the second. */
  egressRetryMs: 100,
  egressRetryMsMax: 5_000,
  /** Until rules that it did not take are said again. */
  egressApplyAgainMs: 2_000,
  /** How often a process that runs is asked whether it still answers, and how long the answer may take. */
  egressLookMs: 5_000,
  egressLookAnswerMs: 3_000,
  /** One that has said nothing for so long hangs, and is ended: no load of its own keeps it from answering for seconds. */
  egressHungMs: 20_000,
  /** Time to end by itself before it is killed. */
  egressStopMs: 5_000,
  /** An answer of its internal API: 1,000 decisions of 4 KiB. */
  egressAnswerBytesMax: 16_777_216,
  /** Decisions that `policy learn` reads: all that are kept of one sandbox. */
  learnDecisionsMax: 20_000,
  /** Trust layers whose place is remembered; a forgotten one is found again by looking at the layers. */
  trustStacksMax: 1_024,
  /** A bundle of certificates in a layer: ten times what the world's public authorities take. */
  trustBundleBytesMax: 4_194_304,

  // HTTP.
  /** A JSON request: the original's number; the longest command is a sixteenth of it. */
  jsonBodyBytesMax: 1_048_576,
  /** From the end of the headers to the end of a JSON body: 35 KB/s are enough, a trickle is an attack. */
  jsonBodyMs: 30_000,
  /** All headers of a request together; Node's own default, written down because tests rely on it. */
  headerBytesMax: 16_384,
  /** From the first byte of a request to the end of its headers. */
  headersMs: 10_000,
  /** Requests of one connection that wait for their answers: clients that pipeline send a handful, and each is held in memory. */
  unansweredMax: 64,
  /** An idle connection: longer than the 60 s after which common proxies drop theirs, so they close first. */
  keepAliveMs: 65_000,
  /** TCP connections; those on the Unix socket are counted apart, so that the operator always gets in. */
  connectionsMax: 1_024,
  /** Of these, connections on which no request has passed the gate: the rest is for those who have shown who they are. */
  newcomersMax: 768,
  /** … of one address: half of all, so that a burst of an honest client is served, and others have room beside any one. */
  newcomersPerPeerMax: 512,
  /** So long one may wait for its request before it makes room for another: many times what a request takes to follow. */
  newcomerGraceMs: 500,
  /** Between two lines of the log about it. */
  newcomersToldMs: 60_000,
  /** Event streams, logs and WebSockets open at once: each holds up to some hundred KiB for a slow client. */
  streamsMax: 256,
  /** A comment in a silent event stream, so that proxies (60 s) keep it and a dead client is noticed. */
  eventKeepAliveMs: 15_000,
  /** One WebSocket message: the start message with its argv, or a chunk of standard input. */
  webSocketMessageBytesMax: 1_048_576,
  /** From the handshake to the start message. */
  webSocketStartMs: 10_000,
  /** Standard input taken from a WebSocket but not yet by the command; then the client's socket is not read. */
  webSocketInputBytesMax: 262_144,
  /** Pings on a silent WebSocket, before the 60 s of common proxies. */
  webSocketPingMs: 30_000,
  /** Pings while a client's input waits for its command: how soon its leaving is noticed then. */
  webSocketWatchMs: 1_000,
  /** argv and environment of a streamed command, with 8 bytes for each word: they share one 256 KiB frame. */
  execArgumentsBytesMax: 229_376,
  /** Variables of a streamed command: far below the frame's 8,192 fields. */
  execVariablesMax: 2_048,
  /** A module's file: squashfs of a full desktop with browsers and SDKs stays far below. */
  uploadBytesMax: 17_179_869_184,
  /** An upload from which nothing comes for this long is ended. */
  uploadIdleMs: 30_000,
  /** Uploads at once: each may fill `tmp/` with its size. */
  uploadsMax: 4,
  /** Snapshots sent at once: each may hold a merged file of its size in `tmp/`. */
  downloadsMax: 4,
  /** Comparisons of snapshots and copies of volumes at once: the launcher has a worker more for what takes long, so snapshots wait for none of them. */
  treeReadsMax: 4,
  /** A download of which nothing is taken for this long is ended: its file holds room. */
  downloadIdleMs: 60_000,
  /** Read from a file at a time while it is sent. */
  downloadChunkBytes: 262_144,
  /** Exec records read from the database at a time while a log is sent: 16 × 128 KiB are in memory. */
  logsPageRecords: 16,

  // Previews of ports.
  /** Connections of visitors: half of all, so that the API has the other half. */
  previewConnectionsMax: 512,
  /** … to one sandbox: many browsers, which open six each; PID 1 holds 256 ports open, and the rest is for forwards. */
  previewConnectionsPerSandboxMax: 128,
  /** All headers of an answer: development servers set more cookies than Node's own 16 KiB hold. */
  previewHeaderBytesMax: 65_536,
  /** Until a program that listens accepts: it is on the same machine, and only a full backlog waits. */
  previewDialMs: 5_000,
  /** From the request's end to the head of its answer: a development server may compile first, a model may think. */
  previewAnswerMs: 300_000,
  /** An exchange in which nothing moves either way: WebSockets and event streams say something each minute. */
  previewIdleMs: 600_000,
  /** Exchanges in progress when the daemon stops: event streams among them would never end. */
  previewStopMs: 2_000,
  /** Between two looks at the files of the certificate: whoever renewed it sees it at once. */
  previewCertificateLookMs: 5_000,
  /** A signed link ends after an hour unless another time is named: long enough to look, short in a chat that is kept. */
  previewLinkSDefault: 3_600,
  /** Thirty days: what shall live longer is to be public. */
  previewLinkSMax: 2_592_000,
  /** Ports of one answer. */
  portsListedMax: 1_024,
  /** What is read of a sandbox's /proc to find them: files, processes, descriptors of one; more is not looked at. */
  procFileBytesMax: 1_048_576,
  procProcessesMax: 256,
  procDescriptorsMax: 1_024,
  /** Waiting for a port: as long as a slow build may take, and less than common clients wait. */
  portWaitMsMax: 300_000,
  portWaitMsDefault: 30_000,
  /** Between two looks. */
  portWaitLookMs: 100,
  /** What a client has said to its end, and the program takes after that client is gone. */
  portRestMs: 10_000,
  // Volumes.
  /** The smallest image with a journal. */
  volumeMbMin: 16,
  /** A tebibyte: the largest image that the privileged helper makes. */
  volumeMbMax: 1_048_576,
  /** A list of them is one answer's work, and each has a directory. */
  volumesMax: 10_000,
  /** The launcher's bound: a start carries them in one message. */
  mountsMax: 16,
  // Approvals.
  /** Kept of one sandbox: a person looks back at the last ones. */
  approvalsKeptMax: 200,
  /** … and of all: who looks through them keeps nobody waiting. */
  approvalsMax: 20_000,
  /** Rules that hold for all sandboxes: the length of a policy's list. */
  standingApprovalsMax: 256,
  approvalReasonCharsMax: 500,
  /** Until the egress process is asked again what waits: a person does not see it. */
  questionsRetryMs: 500,
  // Behind all others: V8 copies what it knows of an object's properties for each that is named after a spread.
  ...contextLimits,
  ...imageLimits,
} as const;
