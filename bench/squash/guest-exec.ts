/** Commands of a guest's PID 1 itself, asked as the daemon asks it, without an API in between. */
import type { GuestClient } from '../../host/src/guest/client.ts';
import type { GuestExecSpec } from '../../host/src/guest/guest.ts';

export function plainCommand(execId: string, ...argv: readonly string[]): GuestExecSpec {
  const nothing = { tty: undefined, stdin: 'none', timeoutMs: undefined } as const;
  return { execId, argv, env: {}, cwd: '/', uid: 0, gid: 0, openFilesMax: 1_024, ...nothing };
}

/** Resolves with its end. */
export async function ranIn(client: GuestClient, command: GuestExecSpec): Promise<void> {
  const exec = await client.exec(command);
  for await (const event of exec.events()) {
    if (event.type === 'exit' && event.outcome.exitCode !== 0) throw new Error('the command failed');
  }
  exec.release();
}
