/** A command as programs name it, and as the wire has it. */
import { badRequest } from './errors.ts';
import type { ProcessExec, ProcessStart } from './records.gen.ts';

/** A string is a shell line, a list is words that no shell sees. */
export type Command = string | readonly string[];

export interface ExecOptions extends Omit<ProcessExec, 'argv' | 'shell'> {
  /** Stops waiting; the command runs on. */
  readonly signal?: AbortSignal | undefined;
}

export interface StartOptions extends Omit<ProcessStart, 'argv' | 'shell'> {
  /** Stops waiting for the start. */
  readonly signal?: AbortSignal | undefined;
}

export function commandOf(
  command: Command,
): { readonly shell: string } | { readonly argv: readonly string[] } {
  if (typeof command === 'string') {
    if (command === '') throw badRequest('the command is empty');
    return { shell: command };
  }
  if (command.length === 0) throw badRequest('the command has no words');
  return { argv: command };
}

/** What the daemon takes where nothing is given. */
const timeoutMsDefault = 300_000;

/** How long a command may take before the daemon answers. */
export function takesMsOf({
  timeout_ms: timeoutMs = timeoutMsDefault,
}: Pick<ExecOptions, 'timeout_ms'>): number {
  return timeoutMs;
}
