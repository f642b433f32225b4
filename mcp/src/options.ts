/** What whoever starts the server decides; no tool changes any of it. */
import type { SandboxCreate, Squash } from '@squash/sdk';

export interface McpOptions {
  readonly squash: Squash;
  /** The one sandbox that tools work in; without it each session has its own. */
  readonly sandbox?: string | undefined;
  /** What sandboxes are made with: layers, limits, policy. */
  readonly create: Omit<SandboxCreate, 'name' | 'labels'>;
  /** Layers for those whose `create` names none, asked for each; the daemon's own where there are none. */
  readonly layers: () => Promise<readonly string[] | undefined>;
  /** Tools may name every sandbox that the daemon shows this caller, not only those that their session made. */
  readonly anySandbox: boolean;
  /** Sandboxes stay when their session ends. */
  readonly keep: boolean;
  /** Only tools that change nothing. */
  readonly readOnly: boolean;
  /** Of each answer; what is longer is cut. */
  readonly outputChars: number;
}

export const mcpLimits = {
  /** About eight thousand tokens. */
  outputCharsDefault: 30_000,
  outputCharsLeast: 1_000,
  outputCharsMost: 1_000_000,
  /** A model that makes more is in a loop. */
  sandboxesOfSession: 16,
  /** Calls of one session at once; a model makes a few side by side. */
  callsOfSession: 32,
  /** What a sandbox of a session waits for work that nobody has ended: its server was killed. */
  idleTimeoutS: 3_600,
  /** The API's own bound of what it keeps of one process. */
  processOutputBytes: 4_194_304,
  /** Text that is edited, or read by line. */
  textBytes: 33_554_432,
  /** What providers of models take. */
  imageBytes: 3_932_160,
  /** Sessions over HTTP at once, and what one may be silent for. */
  sessions: 32,
  sessionIdleMs: 1_800_000,
} as const;
