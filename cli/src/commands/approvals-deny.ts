/** `squash approvals deny`. */
import type { Call } from '../command.ts';
import { decide } from './approvals-decide.ts';

export async function run(call: Call): Promise<number> {
  return await decide(call, 'deny');
}
