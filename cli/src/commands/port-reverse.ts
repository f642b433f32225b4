/**
 * `squash port-forward --reverse`: programs in a sandbox connect to a port of this machine, or of one that it reaches. An offer is a
 * WebSocket over which the daemon tells of each connection; who listens here is dialled first, so that nobody waits for one who does not.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { CallerControl, CallerEvent } from '@squash/contract/callers';
import { callerServiceName } from '@squash/contract/destination';
import type { PolicyTestAnswer } from '@squash/contract/egress';
import { apiPath, type Client } from '../client/client.ts';
import { carryBytes } from '../client/tcp.ts';
import type { WebSocketConnection } from '../client/websocket.ts';
import { CliFailure, errorCode, usageFailure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { policyPath } from './policy-show.ts';
import { parsePort } from './ports.ts';

/** Connections to `caller.squash.internal:<port>` go to `host:local`. */
export interface Reverse {
  readonly port: number;
  readonly host: string;
  readonly local: number;
}

export interface Offer extends Disposable {
  /** Rejects when it is over. */
  readonly ended: Promise<never>;
}

/** `5432`, `5432:80`, `localhost:5432` or `5432:localhost:80`, as `ssh -R` has it. An IPv6 address stands in brackets. */
export function parseReverse(word: string): Reverse {
  const parts = word.match(/\[[^\]]*\]|[^:]+/g) ?? [];
  const [first = '', second = first, third = second] = parts;
  if (parts.length > 3 || parts.join(':') !== word)
    throw usageFailure(`--reverse takes [PORT:]HOST:PORT, such as 5432:localhost:5432, not "${word}"`);
  const local = parsePort(third);
  const isNumber = /^\d+$/.test(first);
  const host = parts.length === 3 ? second : isNumber ? 'localhost' : first;
  return { port: isNumber ? parsePort(first) : local, host: host.replace(/^\[|\]$/g, ''), local };
}

/** Resolves when it stands. @throws CliFailure with the daemon's word */
export async function offer(client: Client, id: string, reverse: Reverse): Promise<Offer> {
  const offering = await client.webSocket(callerPath(id, reverse.port), 'squash.caller.v1');
  const events = eventsOf(offering);
  const first = await events.next();
  if (first.done === true || first.value.type !== 'offered') {
    throw new CliFailure('stream_ended', `port ${reverse.port} was not offered`);
  }
  await noteRefusal(client, id, reverse.port);
  const dialled = new Set<Socket>();
  const take = async (): Promise<never> => {
    for await (const event of events) {
      if (event.type !== 'connection') continue;
      void serve({ client, offering, dialled }, id, { ...reverse, connection: event.connection });
    }
    throw new CliFailure('stream_ended', `port ${reverse.port} is no longer offered to "${id}"`);
  };
  const ended = take();
  // Whoever waits for it may still be busy with the next offer.
  ended.catch(() => undefined);
  return {
    ended,
    [Symbol.dispose]: () => {
      offering.close();
      for (const socket of dialled) socket.resetAndDestroy();
    },
  };
}

/** @throws CliFailure */
async function* eventsOf(offering: WebSocketConnection): AsyncGenerator<CallerEvent, void> {
  try {
    for await (const message of offering.messages()) {
      if (message.type !== 'text') continue;
      const event = JSON.parse(message.text) as CallerEvent;
      if (event.type === 'error') throw new CliFailure(event.code, event.message);
      yield event;
    }
  } catch (cause) {
    if (cause instanceof CliFailure) throw cause;
    throw new CliFailure('stream_ended', cause instanceof Error ? cause.message : String(cause));
  }
}

/** The offer stands, but a sandbox that may not use it is refused before anybody here hears of it. */
async function noteRefusal(client: Client, id: string, port: number): Promise<void> {
  const to = `${callerServiceName}:${port}`;
  const answer = await client.post<PolicyTestAnswer>(policyPath(id, ['test']), { to });
  if (answer.allowed || answer.asked === true) return;
  const rule = answer.steps.at(-1)?.rule ?? '';
  const remedy = rule.startsWith('ceiling ')
    ? 'the operator’s egress-ceiling.json has to name it'
    : rule.startsWith('deny[')
      ? `its own rules deny that: squash policy show ${id}`
      : `allow it: squash policy allow ${id} ${to}`;
  printNote(`squash: the policy of ${visible(id)} does not let it reach ${to} (${visible(rule)}); ${remedy}`);
}

interface Serving {
  readonly client: Client;
  readonly offering: WebSocketConnection;
  readonly dialled: Set<Socket>;
}

/** One connection, to its end. What fails is told, and the next one may work. */
async function serve(
  { client, offering, dialled }: Serving,
  id: string,
  { port, host, local, connection }: Reverse & { readonly connection: string },
): Promise<void> {
  const tell = (cause: unknown): void => {
    const message = errorCode(cause) ?? (cause instanceof Error ? cause.message : String(cause));
    printNote(`squash: port ${port}: ${visible(message)}`);
  };
  const socket = connect({ host, port: local, allowHalfOpen: true, noDelay: true });
  dialled.add(socket);
  socket.once('close', () => dialled.delete(socket));
  try {
    await once(socket, 'connect');
  } catch (cause) {
    printNote(
      `squash: port ${port}: can't connect to ${visible(host)}:${local}: ${errorCode(cause) ?? String(cause)}`,
    );
    const refusal: CallerControl = { type: 'refuse', connection };
    return await offering.sendText(JSON.stringify(refusal)).catch(tell);
  }
  let taken: WebSocketConnection | undefined;
  // Also before there is a connection that it ends.
  socket.on('error', () => undefined);
  try {
    taken = await client.webSocket(callerPath(id, port, [connection]), 'squash.tcp.v1');
    await carryBytes(socket, taken);
  } catch (cause) {
    if (!socket.destroyed) tell(cause);
    taken?.destroy();
    socket.resetAndDestroy();
  }
}

function callerPath(id: string, port: number, more: readonly string[] = []): string {
  return apiPath(['v1', 'sandboxes', id, 'callers', `${port}`, ...more]);
}
