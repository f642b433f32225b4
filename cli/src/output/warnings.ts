/** What the daemon warns of beside its answer. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import { printNote, visible } from './print.ts';

/** To standard error: a limit that does not hold should be seen. */
export function noteWarnings(warnings: SandboxRecord['warnings']): void {
  for (const { message, code } of warnings) printNote(`squash: warning: ${visible(message)} (${code})`);
}
