/**
 * The shapes of a command: its entry in the command table (cheap, always loaded) and its module (loaded when it
 * is called). Help, completion and parsing are all made from the entry, so they can't disagree.
 */
import type { Client } from './client/client.ts';
import type { Flags } from './arguments.ts';

/** What a word stands for: the shell completes it by this. */
export type WordKind =
  | 'sandbox'
  /** `ID` or `ID:LABEL`. */
  | 'source'
  | 'box'
  | 'module'
  | 'image'
  | 'snapshot'
  | 'volume'
  | 'job'
  | 'process'
  | 'context'
  | 'secret'
  | 'webhook'
  | 'tier'
  | 'group'
  | 'chat'
  | 'schedule'
  | 'held'
  | 'preset'
  | 'key'
  | 'sshKey'
  | 'owner'
  | 'layerPreset'
  | 'file'
  | 'directory'
  | 'command'
  | 'text';

export interface FlagSpec {
  readonly name: string;
  readonly short?: string;
  /** Placeholder of the flag's value; a flag without one is a switch. */
  readonly value?: string;
  readonly kind?: WordKind;
  /** The words that may stand there, for completion; what else is refused by whoever takes them. */
  readonly choices?: readonly string[];
  /** May be given several times; `list` returns all. */
  readonly repeats?: true;
  readonly summary: string;
}

export interface PositionalSpec {
  readonly name: string;
  readonly kind: WordKind;
  readonly choices?: readonly string[];
  readonly optional?: true;
  /** Only the last may repeat. */
  readonly repeats?: true;
}

export interface CommandSpec {
  /** One or two words: `ls`, `module import`. */
  readonly name: string;
  readonly group:
    | 'daemon'
    | 'sandbox'
    | 'command'
    | 'box'
    | 'file'
    | 'layer'
    | 'volume'
    | 'network'
    | 'event'
    | 'group'
    | 'access'
    | 'other';
  readonly summary: string;
  readonly positionals: readonly PositionalSpec[];
  readonly flags: readonly FlagSpec[];
  /** From this positional on (or after `--`) words belong to the command in the sandbox, options included. */
  readonly rest?: {
    readonly after: number;
    readonly name: string;
    readonly optional?: true;
    /** A first word that is no positional: the command begins with it. */
    readonly begins?: (word: string) => boolean;
  };
  /** Runs something in a sandbox: Squash's own failures exit with 125. */
  readonly passesExitCode?: true;
  /** Instead of 125, where the original's is another. */
  readonly failsWith?: 1;
  /** Not in help and completion. */
  readonly hidden?: true;
  readonly notes?: string;
  readonly load: () => Promise<CommandModule>;
}

export interface Call {
  readonly positionals: readonly string[];
  /** Words that belong to the command in the sandbox. */
  readonly rest: readonly string[];
  readonly flags: Flags;
  readonly json: boolean;
  readonly client: Client;
}

interface CommandModule {
  /** Returns the exit code. */
  readonly run: (call: Call) => Promise<number>;
}
