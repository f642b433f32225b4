/** How a command ended, as `process.exec` answers it, with a check that throws. */
import { CommandFailed } from './errors.ts';
import type { ProcessResult } from './records.gen.ts';

export interface ExecResult extends ProcessResult {
  /** Itself where the command ended with 0. @throws CommandFailed where it did not */
  check(): ExecResult;
}

/** The record with the check: not a field of its own, so that the result is written and compared as the record is. */
export function execResult(record: ProcessResult): ExecResult {
  const result = Object.defineProperty({ ...record }, 'check', {
    value: (): ExecResult => {
      if (record.exit_code !== 0) throw new CommandFailed(result);
      return result;
    },
  }) as ExecResult;
  return result;
}
