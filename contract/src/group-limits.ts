/** The limits of groups, each with its reason; the others are in `limits.ts`. */
import { limits } from './limits.ts';

export const groupLimits = {
  /** Rows of a page. */
  pageItemsMax: 1_000,
  pageItemsDefault: 100,
  /** What one host is asked to keep apart; each is some rows and a volume, which has a limit of its own. */
  groupsMax: 512,
  chatsMax: 4_096,
  tiersMax: 64,
  /** One message of a chat system has 4 to 16 KiB; of agents' answers more is cut into several. */
  messageBytesMax: 16_384,
  /** Of one chat, waiting for their run: messages that start one, beyond which the sender is told to come again … */
  waitingMax: 100,
  /** … and those that are read along, of which the oldest go. */
  contextMax: 50,
  /** Of one group, runs that wait for their turn. */
  queuedRunsMax: 256,
  /** Of one chat, what agents said and nobody took away: the oldest go. */
  outMessagesMax: 10_000,
  /** Of one group, runs and actions that are over: the oldest go. */
  keptMax: 1_000,
  /** What the command of a run gets at once; further messages are for the run behind it. */
  promptBytesMax: 262_144,
  /** Runs at once, over all groups: a sandbox each. */
  runsMax: 8,
  /** Of tiers. A run that waits gains one … */
  priorityMax: 9,
  /** … in so long, without a bound: the lowest waits that much longer for each, and not for ever. */
  priorityMs: 60_000,
  /** A run that failed before it said or did anything is tried again, so often … */
  attemptsMax: 3,
  /** … and after so long, twice as long each time. */
  retryMs: 1_000,
  /** One whose folder another sandbox has, or for which there is no room, waits so long before it looks again. */
  awayMs: 3_000,
  /** Interval of a schedule: below a second nothing waits for a run; a year is a date. */
  everyS: { least: 1, most: 31_536_000 },
  /** Of clients of the API, over all chats … */
  schedulesMax: 1_024,
  /** … and of the agents of one group; with `schedule_every_s_min` this is how often they have runs begin. */
  schedulesOfGroupMax: 16,
  /** Lines of one schedule's history: the oldest go. */
  scheduleRunsKept: 100,
  /** A time is missed when nobody has looked for so long, or the next one has come too. */
  missedAfterMs: 60_000,
  /** The clock is looked at again so late at most: it may be set, and a machine may sleep. */
  scheduleLookMs: 15_000,
  /** A clock that was put back by more than this was wrong before: times of schedules are told anew. */
  putBackMs: 10_800_000,
  /** End of a run, whatever it does; the default is that of tiers … */
  timeoutS: { least: 1, default: 1_800, most: 86_400 },
  /** … and of one of which nothing comes: a model that thinks takes minutes. */
  idleTimeoutS: { least: 1, default: 900, most: 86_400 },
  /** Of tiers: so long a sandbox is kept for the next run of its chat at most … */
  warmSMax: 3_600,
  /** … and so many of all groups, the oldest go: each is files on the disk, and one of the daemon's sandboxes. */
  warmMax: 8,
  /** What of a run's output is told; a program that prints on is not held up by it. */
  outputBytes: { least: 1, default: 1_048_576, most: 10_485_760 },
  /** What a chat's session may take: transcripts of a conversation are some megabytes, what programs keep in their home some hundred. */
  sessionMb: { least: limits.volumeMbMin, default: 256, most: limits.volumeMbMax },
  /** What the memory of all groups may take: it is read whole, by models. */
  globalMb: 256,
  /** What an agent asks for in one run, and what of one group may wait for a person. */
  actionsOfRunMax: 256,
  heldMax: 32,
  /** Runs that start runs that start runs. */
  depthMax: 8,
  /** Requests of one run, and how many at once after a pause: each costs the daemon a transaction. */
  requestRate: { perS: 20, burst: 400 },
  /** Requests of agents: an action with its message, escaped. */
  requestBytesMax: 131_072,
  /** Of what was said, as an agent is shown it at once: eight connections that are not read keep as many in the daemon. */
  viewBytesMax: 262_144,
  /** Connections of one run to its channel at once. */
  connectionsMax: 8,
  /** Before the channel is offered again, after it broke. */
  offerAgainMs: 250,
  /** A run begins without its channel when that is not there in this time. */
  offerMs: 5_000,
  /** Files of a run's sandbox outlast its command's time-out by this, then the sandbox is removed by its lifetime. */
  lingerS: 600,
} as const;

/** Where an agent finds its channel, from inside. */
export const groupChannelPort = 7774;
