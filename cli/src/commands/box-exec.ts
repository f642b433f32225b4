/** `squash box exec`: one more command in a box. One that was stopped runs for as long as the command does. */
import { isatty } from 'node:tty';
import { publish } from '../box/published.ts';
import { findBox, stopBox, wakeBox } from '../box/boxes.ts';
import type { BoxRecord } from '../box/record.ts';
import type { BoxDaemon } from '../box/daemon.ts';
import type { Call } from '../command.ts';
import { readEnvironment } from './exec-options.ts';
import { execInSandbox } from './exec.ts';

export async function run(call: Call): Promise<number> {
  const { daemon, box } = await findBox(call, call.positionals[0] ?? '');
  return await execInBox(call, daemon, { box, argv: call.rest });
}

/** Shared with `box shell`. */
export async function execInBox(
  call: Call,
  daemon: BoxDaemon,
  { box, argv }: { readonly box: BoxRecord; readonly argv: readonly string[] },
): Promise<number> {
  const tty = call.flags.isSet('tty') || (isatty(0) && isatty(1));
  const { TERM: term } = process.env;
  const wasStopped = box.state === 'stopped';
  using _published = await publish(call, { client: daemon.client, id: box.id });
  await wakeBox(daemon, box);
  try {
    return await execInSandbox({ client: daemon.client, json: call.json }, box.id, {
      argv,
      env: { ...(term !== undefined && { TERM: term }), ...readEnvironment(call.flags) },
      cwd: workdirIn(box),
      user: undefined,
      timeoutMs: undefined,
      tty,
      stdin: tty || !isatty(0),
      output: call.json ? 'discard' : 'print',
    });
  } finally {
    if (wasStopped) await stopBox(daemon, box.id);
  }
}

/** Where we are, if the box has that; else where the box begins. */
function workdirIn({ host_paths: paths }: BoxRecord): string | undefined {
  const here = process.cwd();
  const isHere = Object.entries(paths ?? {})
    .filter(([path]) => here === path || here.startsWith(`${path}/`))
    .toSorted(([one], [other]) => other.length - one.length)
    .slice(0, 1)
    .some(([, level]) => ['ro', 'cow', 'rw'].includes(level));
  return isHere ? here : undefined;
}
