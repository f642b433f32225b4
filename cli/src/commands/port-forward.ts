/**
 * `squash port-forward`: listens on this machine; each connection is a WebSocket to the daemon, and there one to the sandbox's
 * port. `--reverse` is the other direction (port-reverse.ts).
 */
import { once } from 'node:events';
import { callerServiceName } from '@squash/contract/destination';
import { type Forward, listenForward, parseForward } from '../client/forward.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { type Offer, offer, parseReverse } from './port-reverse.ts';
import { portPath } from './ports.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  const forwards = words.map(parseForward);
  const reverses = call.flags.list('reverse').map(parseReverse);
  if (forwards.length + reverses.length === 0)
    throw usageFailure('<[local:]port> or --reverse is missing; try: squash help port-forward');
  const bind = call.flags.text('bind') ?? '127.0.0.1';
  // A sandbox that is not there is told now, not at the first connection.
  await call.client.get(portPath(id, 1).replace(/\/1$/, ''));
  using stack = new DisposableStack();
  const bound: Forward[] = [];
  const target = Promise.resolve({ client: call.client, id });
  for (const forward of forwards) bound.push(stack.use(await listenForward(forward, bind, target)));
  const offers: Offer[] = [];
  for (const reverse of reverses) offers.push(stack.use(await offer(call.client, id, reverse)));
  if (call.json) printJson([...bound, ...reverses.map((each) => ({ reverse: true, ...each }))]);
  else {
    for (const { address, local, port } of bound) printLine(`${address}:${local} -> ${visible(id)}:${port}`);
    for (const { port, host, local } of reverses)
      printLine(`${visible(id)} ${callerServiceName}:${port} -> ${visible(host)}:${local}`);
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => once(process, name));
  await Promise.race([...signals, ...offers.map(({ ended }) => ended)]);
  return exitCodes.ok;
}
