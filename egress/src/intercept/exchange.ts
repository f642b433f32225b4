/**
 * The life of one request: judged, secrets put in, sent, answered, values taken out, recorded.
 *
 * What a newcomer would get wrong: everything that can refuse a request is asked before the server is dialled, except for what
 * stands in a body; a body is refused in the piece in which the forbidden thing is complete, and then the server
 * sees the request break off and the program reads why.
 */
import type { Duplex } from 'node:stream';
import { errorText } from '@squash/base/bug';
import type { Clock } from '@squash/base/clock';
import { type Decision, DialRefused, type InterceptedConnection, ProxyFailed } from '../ports.ts';
import { PlaceholderElsewhere, RequestSecrets, type SecretsRoute } from '../secrets/request-secrets.ts';
import { ResponseSecrets } from '../secrets/response-secrets.ts';
import { SecretFailed } from '../secrets/traffic-secrets.ts';
import { byteTurns } from '../flow/byte-turns.ts';
import { type BodyPlan, planAnswerBody, planRequestBody } from './bodies.ts';
import { readableEncodings } from './codings.ts';
import { freshSecrets } from './fresh-secrets.ts';
import { valueOf, valuesOf, without } from './headers.ts';
import { denied } from './judgement.ts';
import { interceptLimits } from './limits.ts';
import type { LiveExchange } from './live-exchange.ts';
import {
  type Answer,
  type FrontExchange,
  type HeaderList,
  type OutgoingRequest,
  type Upstream,
  type UpstreamExchange,
  Unreadable,
  UpstreamFailed,
} from './message.ts';
import { BrokenOff, type OnBytes } from '../flow/pump.ts';
import { type Refusal, refusalPage } from './refusal-page.ts';

/** What all requests of one connection share. */
export interface ExchangeContext {
  readonly connection: InterceptedConnection;
  readonly upstream: Upstream;
  /** A connection to the server of its own, speaking HTTP/1.1, for what leaves HTTP. */
  readonly connect: (signal: AbortSignal) => Promise<Duplex>;
  readonly clock: Clock;
}

/** What an early answer without any header counts for. */
const earlyBytesLeast = 256;

/** What is known of a request so far, for the log. */
export class Tally {
  bytesUp = 0;
  bytesDown = 0;
  rule = '';
  secrets: ReadonlySet<string> = new Set();
}

/** Resolves when the request is answered, refused or broken off. Never rejects. */
export async function serveExchange(live: LiveExchange, context: ExchangeContext): Promise<void> {
  const { front } = live;
  const recorder = new Recorder(front, context);
  // A request costs as much as some bytes do, and a flood of small ones has few.
  const turn = byteTurns.spend(context.connection.sandbox, interceptLimits.exchangeTurnBytes);
  if (turn !== undefined) await turn;
  const judgement = await live.judgement();
  if (judgement.kind === 'refuse') {
    recorder.record('denied', judgement.rule);
    return live.signal.aborted ? front.abort() : refuse(front, judgement.refusal);
  }
  recorder.tally.rule = judgement.rule;
  try {
    await forward(live, context, { ...judgement, tally: recorder.tally });
    recorder.record('allowed', judgement.rule);
  } catch (error) {
    await settleFailure(live, context, { error, recorder });
  }
}

/** Says to program and log why an exchange failed. */
export async function settleFailure(
  { front, signal }: LiveExchange,
  { connection }: ExchangeContext,
  { error, recorder }: { readonly error: unknown; readonly recorder: Recorder },
): Promise<void> {
  if (error instanceof DialRefused) {
    const { rule, refusal } = denied(error.verdict, front.head, connection);
    recorder.record('denied', rule);
    return refuse(front, refusal);
  }
  if (error instanceof PlaceholderElsewhere) {
    recorder.tally.secrets = new Set([...recorder.tally.secrets, error.secret]);
    recorder.record('blocked', error.rule);
    return refuse(front, placeholderRefusal(error));
  }
  if (error instanceof SecretFailed) {
    recorder.tally.secrets = new Set([...recorder.tally.secrets, error.secret]);
    recorder.record('blocked', 'secret_not_refreshed');
    return refuse(front, {
      status: 502,
      code: 'secret_not_refreshed',
      message: error.message,
      advice: notRefreshed,
    });
  }
  if (error instanceof Unreadable) {
    recorder.record('blocked', 'unreadable_body');
    const { message } = error;
    const advice = 'A sandbox with secrets can send bodies that are plain, gzip, deflate, br or zstd.';
    return refuse(front, { status: 403, code: 'unreadable_body', message, advice });
  }
  const why =
    error instanceof UpstreamFailed && error.cause instanceof ProxyFailed ? ` (${error.cause.code})` : '';
  recorder.record('allowed', `${recorder.tally.rule}${why}`);
  if (error instanceof BrokenOff || signal.aborted) return front.abort();
  // Else the server's doing, or something one version of HTTP can say and the other can not.
  const message =
    error instanceof UpstreamFailed ? error.message : `it can not be passed on: ${errorText(error)}`;
  return refuse(front, { status: 502, code: 'upstream_failed', message });
}

function placeholderRefusal(error: PlaceholderElsewhere): Refusal {
  return {
    status: 403,
    code: error.rule,
    message: error.message,
    rule: error.rule,
    advice: advices[error.rule],
  };
}

const advices: Readonly<Record<PlaceholderElsewhere['rule'], string>> = {
  placeholder_elsewhere:
    'Only its allowed_hosts may have a secret, and its placeholder. The operator sees them with "squash secret ls", those of a sandbox’s own secrets with "squash policy show ID".',
  placeholder_without_tls:
    'Use https. Where the server has no TLS, the operator writes the secret’s host with its port, such as "api.example.com:80".',
};

const notRefreshed =
  'The operator finds what to do in docs/secrets.md; after "invalid_grant" the credential has to be made again.';

/** How this connection’s requests travel. */
export function routeOf({ destination, protocol, isTlsUnread }: InterceptedConnection): SecretsRoute {
  return { destination, isPlain: protocol === 'http' && !isTlsUnread };
}

interface Route {
  readonly target: string;
  readonly authority: string;
  readonly tally: Tally;
}

async function forward(
  live: LiveExchange,
  context: ExchangeContext,
  { target, authority, tally }: Route,
): Promise<void> {
  const { front } = live;
  const { connection, upstream } = context;
  const traffic = await freshSecrets(live, { connection, target, mayHaveBody: front.head.hasBody });
  const secrets = new RequestSecrets(traffic, routeOf(connection));
  const responses = new ResponseSecrets(traffic, connection.destination);
  tally.secrets = secrets.used;
  const plan = planRequestBody(front.head.headers, secrets, connection.sandbox);
  const collected =
    front.head.hasBody && !front.head.expectsContinue
      ? await plan.collect?.(front.body, count(tally, 'bytesUp', connection.sandbox))
      : undefined;
  const described = collected?.headers ?? (front.head.hasBody ? plan.headers : front.head.headers);
  const outgoing = {
    method: front.head.method,
    target: secrets.target(target),
    authority,
    headers: secrets.headers(traffic.isEmpty ? described : withReadableEncodings(described)),
    hasBody: front.head.hasBody,
    expectsContinue: front.head.expectsContinue && front.head.hasBody,
    onContinue: () => front.sendContinue(),
    onEarly: earlyPassed(front, responses),
  };
  const sent = await upstream.send(outgoing, live.signal);
  live.onGone(() => sent.abort());
  if (sent.sink.writableFinished) live.hasSent();
  else sent.sink.once('finish', () => live.hasSent());
  const sending = sendBody(front, sent, async () => {
    if (collected !== undefined) sent.sink.write(collected.body);
    else if (front.head.hasBody)
      await plan.move(front.body, sent.sink, count(tally, 'bytesUp', connection.sandbox));
    return secrets.headers(front.trailers());
  });
  // Both are awaited below; until then a failure of one must not count as forgotten.
  sending.catch(ignore);
  sent.answer.catch(ignore);
  try {
    const answer = await Promise.race([sent.answer, sending.then(() => sent.answer)]);
    if (answer.head.status === 401) traffic.refuse(secrets.used);
    const receiving = passAnswer(front, answer, { responses, tally, sandbox: connection.sandbox });
    await Promise.all([receiving, sending]);
  } catch (error) {
    sent.abort();
    throw error;
  }
}

/** A few hints help; nobody waits for the program to read them, so many would fill the memory. */
function earlyPassed(front: FrontExchange, responses: ResponseSecrets): OutgoingRequest['onEarly'] {
  let left: number = interceptLimits.earlyBytesMax;
  return (status, headers) => {
    left -= headers.reduce((sum, text) => sum + text.length, earlyBytesLeast);
    if (left >= 0) front.sendEarly(status, responses.headers(headers));
  };
}

/** Resolves also where the server stops reading: then its answer tells what became of the request. */
async function sendBody(
  front: FrontExchange,
  sent: UpstreamExchange,
  move: () => Promise<HeaderList>,
): Promise<void> {
  if (!front.head.hasBody) return;
  try {
    sent.finish(await move());
  } catch (error) {
    if (!(error instanceof BrokenOff) || error.side !== 'sink') throw error;
  }
}

export interface AnswerPassing {
  readonly responses: ResponseSecrets;
  readonly tally: Tally;
  readonly sandbox: string;
}

/** Hands the server's answer to the program, with every value in it turned back. */
export async function passAnswer(
  front: FrontExchange,
  answer: Answer,
  { responses, tally, sandbox }: AnswerPassing,
): Promise<void> {
  const [reason = ''] = responses.headers([answer.head.reason]);
  const headers = responses.headers(answer.head.headers);
  if (!answer.head.hasBody) {
    answer.body.resume();
    front.answer({ ...answer.head, reason, headers });
    return front.finish([]);
  }
  const onBytes = count(tally, 'bytesDown', sandbox);
  const accepted = valueOf(front.head.headers, 'accept-encoding');
  const plan = planOf(headers, responses, { accepted, sandbox });
  const collected = await plan.collect?.(answer.body, onBytes);
  const sink = front.answer({ ...answer.head, reason, headers: collected?.headers ?? plan.headers });
  if (collected === undefined) await plan.move(answer.body, sink, onBytes);
  else sink.write(collected.body);
  front.finish(responses.headers(answer.trailers()));
}

function planOf(...asked: Parameters<typeof planAnswerBody>): BodyPlan {
  try {
    return planAnswerBody(...asked);
  } catch (error) {
    if (error instanceof Unreadable) throw new UpstreamFailed(`of the server’s answer, ${error.message}`);
    throw error;
  }
}

/** What asks for messages that are compressed one by one (gRPC, Connect), and of such nobody here can read any. */
const messageAccepts = ['grpc-accept-encoding', 'connect-accept-encoding'] as const;

/** Answers have to be readable here. A part of a compressed body is not, so parts are asked for as they are. */
function withReadableEncodings(asked: HeaderList): HeaderList {
  const present = messageAccepts.filter((name) => valuesOf(asked, name).length > 0);
  const headers = [...without(asked, ...present), ...present.flatMap((name) => [name, 'identity'])];
  const accepted = valuesOf(headers, 'accept-encoding');
  if (accepted.length === 0) return headers;
  const encodings =
    valuesOf(headers, 'range').length > 0 ? 'identity' : readableEncodings(accepted.join(','));
  return [...without(headers, 'accept-encoding'), 'accept-encoding', encodings];
}

export async function refuse(front: FrontExchange, refusal: Refusal): Promise<void> {
  if (front.hasAnswered) return front.abort();
  const page = refusalPage(refusal, valueOf(front.head.headers, 'accept'));
  const hasBody = front.head.method !== 'HEAD';
  const sink = front.answer({ ...page.head, hasBody });
  if (hasBody) sink.write(page.body);
  front.finish([]);
}

/** Writes one line of the decision log for a request. */
export class Recorder {
  readonly tally = new Tally();
  readonly #front: FrontExchange;
  readonly #context: ExchangeContext;
  readonly #sinceMs: number;

  constructor(front: FrontExchange, context: ExchangeContext) {
    this.#front = front;
    this.#context = context;
    this.#sinceMs = context.clock.monoMs();
  }

  record(verdict: Decision['verdict'], rule: string): void {
    const { connection, clock } = this.#context;
    const { host, address, port } = connection.destination;
    const { bytesUp, bytesDown, secrets } = this.tally;
    connection.record({
      kind: 'request',
      host,
      address,
      port,
      method: this.#front.head.method,
      path: this.#front.head.target.split('?', 1)[0] ?? '',
      verdict,
      rule,
      bytesUp,
      bytesDown,
      durationMs: Math.round((clock.monoMs() - this.#sinceMs) * 10) / 10,
      secrets: [...secrets],
    });
  }
}

/** Counts what passes, and says whether the sandbox has had its turn. */
export function count(tally: Tally, which: 'bytesUp' | 'bytesDown', sandbox: string): OnBytes {
  const pay = byteTurns.payer(sandbox);
  return (size) => {
    tally[which] += size;
    return pay(size);
  };
}

function ignore(): void {}
