/**
 * A connection that leaves HTTP: WebSocket, whose messages are looked through like bodies, and other protocols, which
 * are only watched: nothing in them can be replaced, as nobody here knows how they are framed.
 *
 * What a newcomer would get wrong: a server in front of another one may say 101 and go on to read requests. Where a rule is
 * about requests, what follows is WebSocket's frames and nothing else, so that no request stands in it.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { PlaceholderElsewhere, RequestSecrets } from '../secrets/request-secrets.ts';
import { ResponseSecrets, ValueInAnswer } from '../secrets/response-secrets.ts';
import type { ByteFilter } from '../flow/pump.ts';
import {
  count,
  type ExchangeContext,
  passAnswer,
  Recorder,
  refuse,
  routeOf,
  settleFailure,
  type Tally,
} from './exchange.ts';
import { freshSecrets } from './fresh-secrets.ts';
import { fieldsOf, valueOf, without } from './headers.ts';
import { type HeaderList, UpstreamFailed } from './message.ts';
import type { LiveExchange } from './live-exchange.ts';
import { pump } from '../flow/pump.ts';
import { answerOf, failureOf, openUpgrade } from './upstream-http1.ts';
import { closeFrame, FrameError, FrameFilter } from './websocket-frames.ts';

export interface UpgradeRequest {
  readonly request: IncomingMessage;
  /** Not yet on the socket. */
  readonly response: ServerResponse;
  readonly socket: Duplex;
  /** What came behind the request's head. */
  readonly first: Buffer;
}

/** What the program asked to change to, as it wrote it; undefined where the request is served as an ordinary one. */
export function wantedProtocol(request: IncomingMessage): string | undefined {
  const wanted = valueOf(request.rawHeaders, 'upgrade');
  // HTTP/2 and TLS over an upgrade are not used by anyone, and an upgrade may always be left unanswered.
  return wanted === '' || /h2c|tls|http/i.test(wanted) ? undefined : wanted;
}

/** Resolves when both sides are closed. Never rejects. */
export async function serveUpgrade(
  upgrade: UpgradeRequest,
  live: LiveExchange,
  context: ExchangeContext,
): Promise<void> {
  const { socket, response } = upgrade;
  const { front } = live;
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Parameters<typeof response.assignSocket>[0]);
  const recorder = new Recorder(front, context);
  const judgement = await live.judgement();
  try {
    if (judgement.kind === 'refuse') {
      recorder.record('denied', judgement.rule);
      if (!live.signal.aborted) await refuse(front, judgement.refusal);
    } else {
      recorder.tally.rule = judgement.rule;
      await switchProtocols({ ...upgrade, live }, context, {
        ...judgement,
        tally: recorder.tally,
      });
      recorder.record('allowed', judgement.rule);
    }
  } catch (error) {
    await settleFailure(live, context, { error, recorder });
  }
  socket.end();
}

interface Route {
  readonly target: string;
  readonly authority: string;
  readonly tally: Tally;
}

type Switching = UpgradeRequest & { readonly live: LiveExchange };

async function switchProtocols(switching: Switching, context: ExchangeContext, route: Route): Promise<void> {
  const { live, response, socket, request } = switching;
  const { front } = live;
  // Until the end: what is put into messages then is what may be put in now.
  const { connection } = context;
  const traffic = await freshSecrets(live, { connection, target: route.target, mayHaveBody: true });
  const secrets = new RequestSecrets(traffic, routeOf(context.connection));
  route.tally.secrets = secrets.used;
  const protocol = wantedProtocol(request) ?? '';
  const isGoverned = context.connection.policy.needsRequests(context.connection.destination);
  const isFramed = isWebSocket(protocol) && (isGoverned || !traffic.isEmpty);
  // Compressed messages could not be looked through.
  const headers = !isFramed ? front.head.headers : without(front.head.headers, 'sec-websocket-extensions');
  const outgoing = openUpgrade(
    context.connect,
    {
      method: front.head.method,
      target: secrets.target(route.target),
      authority: route.authority,
      headers: secrets.headers(headers),
      protocol,
    },
    live.signal,
  );
  const responses = new ResponseSecrets(traffic, context.connection.destination);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  outgoing.on('error', (error) => reject(failureOf(error)));
  outgoing.on('response', (message) => {
    if (message.statusCode === 401) traffic.refuse(secrets.used);
    const { sandbox } = context.connection;
    passAnswer(front, answerOf(message, front.head.method), { responses, tally: route.tally, sandbox }).then(
      resolve,
      reject,
    );
  });
  outgoing.on('upgrade', (message, server, first) => {
    if (isGoverned && !hasChanged(message, protocol, front.head.headers)) {
      server.destroy();
      return reject(new UpstreamFailed('the server changes to another protocol than it was asked for'));
    }
    response.detachSocket(socket as Parameters<typeof response.detachSocket>[0]);
    socket.write(switchHead(message, responses));
    server.unshift(first);
    socket.unshift(switching.first);
    const { sandbox } = context.connection;
    bridge({ socket, server }, filtersOf({ secrets, responses, isFramed }), {
      tally: route.tally,
      sandbox,
    }).then(resolve, reject);
  });
  live.onGone(() => outgoing.destroy());
  outgoing.end();
  await promise;
}

function isWebSocket(protocol: string): boolean {
  return protocol.toLowerCase() === 'websocket';
}

/** The handshake's own proof that the server has read what it answers (RFC 6455, 4.2.2). */
function hasChanged(message: IncomingMessage, protocol: string, asked: HeaderList): boolean {
  const changed = valueOf(message.rawHeaders, 'upgrade');
  if (changed.toLowerCase() !== protocol.toLowerCase()) return false;
  if (!isWebSocket(protocol)) return true;
  const proof = createHash('sha1').update(
    `${valueOf(asked, 'sec-websocket-key')}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
  );
  return valueOf(message.rawHeaders, 'sec-websocket-accept') === proof.digest('base64');
}

function switchHead(message: IncomingMessage, responses: ResponseSecrets): string {
  const headers = responses.headers(without(message.rawHeaders, 'alt-svc'));
  const lines = Array.from(fieldsOf(headers), ([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`;
}

interface Filters {
  readonly up: ByteFilter | undefined;
  readonly down: ByteFilter | undefined;
  readonly isFramed: boolean;
}

function filtersOf({
  secrets,
  responses,
  isFramed,
}: {
  readonly secrets: RequestSecrets;
  readonly responses: ResponseSecrets;
  readonly isFramed: boolean;
}): Filters {
  const up = (): ByteFilter => secrets.messageFilter();
  if (isFramed) {
    return { up: new FrameFilter(up), down: new FrameFilter(() => responses.bodyFilter()), isFramed };
  }
  if (!responses.isNeeded) return { up: undefined, down: undefined, isFramed };
  return { up: secrets.watchFilter(), down: responses.bodyGuard(), isFramed };
}

async function bridge(
  { socket, server }: { readonly socket: Duplex; readonly server: Duplex },
  { up, down, isFramed }: Filters,
  { tally, sandbox }: { readonly tally: Tally; readonly sandbox: string },
): Promise<void> {
  const move = async (source: Duplex, sink: Duplex, which: 'up' | 'down'): Promise<void> => {
    const onBytes = count(tally, which === 'up' ? 'bytesUp' : 'bytesDown', sandbox);
    await pump(source, sink, { filter: which === 'up' ? up : down, onBytes });
    sink.end();
  };
  try {
    await Promise.all([move(socket, server, 'up'), move(server, socket, 'down')]);
  } catch (error) {
    server.destroy();
    const isOurs =
      error instanceof PlaceholderElsewhere || error instanceof ValueInAnswer || error instanceof FrameError;
    if (isOurs && isFramed) socket.write(closeFrame(1008, `Squash: ${error.message}`));
    socket.end();
    if (error instanceof PlaceholderElsewhere) throw error;
  }
}
