/** How a command ended, as `process.exec` answers it, with a check that throws. */
import { CommandFailed } from './errors.ts';
import type { ProcessResult } from './records.gen.ts';

/** Of standard error in a message; all that was kept is in the result. */
const stderrCharactersMax = 500;

export interface ExecResult extends ProcessResult {
  /** Itself where the command ended with 0. @throws CommandFailed where it did not */
  check(): ExecResult;
}

/** The record with the check: not a field of its own, so that the result is written and compared as the record is. */
export function execResult(record: ProcessResult): ExecResult {
  const result = Object.defineProperty({ ...record }, 'check', {
    value: (): ExecResult => {
      if (record.exit_code !== 0) throw new CommandFailed(failure(record), result);
      return result;
    },
  }) as ExecResult;
  return result;
}

function failure({ command, timed_out, exit_code, encoding, stderr }: ProcessResult): string {
  const how = timed_out ? 'timed out' : `ended with ${exit_code}`;
  const said = encoding === 'text' ? stderr.trimEnd().slice(-stderrCharactersMax) : '';
  return `${command} ${how}${said === '' ? '' : `: ${said}`}`;
}
