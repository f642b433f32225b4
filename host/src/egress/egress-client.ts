/**
 * What the daemon says to the egress process: HTTP with JSON over `run/egress-api.sock`, as
 * `contract/src/egress-protocol.ts` defines it. One method per request.
 *
 * The process may end at any moment and another take its place. A request that met a connection of the old one is sent
 * once more; everything said here may be said twice.
 */
import { closeSync, openSync } from 'node:fs';
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Failure } from '@squash/base/failure';
import { AppError } from '@squash/contract/errors';
import type { PolicySource } from '@squash/contract/policy';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import {
  type EgressApplied,
  type EgressAsked,
  type EgressChanges,
  type EgressDecision,
  type EgressDecisions,
  type EgressIdentity,
  type EgressJudged,
  type EgressOffer,
  type EgressQuestion,
  type EgressQuestionEnd,
  type EgressSandboxRules,
  type EgressStats,
  type EgressSync,
  type EgressSynced,
  type EgressTraffic,
  egressAppliedSchema,
  bytesProtocol,
  egressAskedSchema,
  egressCallerEventSchema,
  egressChangedSchema,
  egressDecisionSchema,
  egressDecisionsSchema,
  egressIdentitySchema,
  egressJudgedSchema,
  egressQuestionEndSchema,
  egressRefusalSchema,
  egressSockets,
  egressStatsSchema,
  egressSyncedSchema,
  egressTrafficSchema,
} from '@squash/contract/egress-protocol';
import { z } from 'zod';
import type { CallerNetwork, OfferEvent } from '../sandbox/network.ts';
import { type ServerEvent, serverEvents } from './server-events.ts';

/** As the query of `GET /decisions`; what is undefined is left out. */
export type DecisionQuery = Readonly<Record<string, string | number | undefined>>;

interface Question {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly path: string;
  readonly json?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly signal?: AbortSignal;
  /** `limits.egressAnswerMs` unless given: how long it may be silent. */
  readonly answerMsMax?: number;
  /** Its answer may be silent for hours; whether the other side lives is seen by its connection. */
  readonly isStream?: boolean;
}

interface Change {
  readonly id: SandboxId;
  readonly json: string;
  readonly resolve: () => void;
  readonly reject: (why: unknown) => void;
}

/** What goes in one message: while it is taken in, nobody's traffic is. */
const together = { changesMax: 100, charactersMax: 1_048_576 };

/** Node would ask whether the host is an IPv6 address, and compile for that what a start has 10 ms less without. */
const noServerName = { servername: '' };

export class EgressClient implements CallerNetwork, Disposable {
  readonly #directory: number;
  readonly #socketPath: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });
  readonly #changes: Change[] = [];
  #isChanging = false;
  #isClosed = false;
  /** Resolves when a process that is just starting answers, or is late; at once where none is. What people ask waits for it. */
  started: () => Promise<unknown> = () => Promise.resolve();

  /** @param runDir where the socket is; it need not be there yet */
  constructor(runDir: string) {
    this.#directory = openSync(runDir, 'r');
    // Short enough for a socket's address, however deep the directory lies.
    this.#socketPath = `/proc/self/fd/${this.#directory}/${egressSockets.api}`;
  }

  sync(sync: EgressSync): Promise<EgressSynced> {
    return this.#ask({ method: 'PUT', path: '/sync', json: JSON.stringify(sync) }, egressSyncedSchema);
  }

  /** Those that come while an answer is awaited go together: in a burst of creates one message carries many. */
  put(id: SandboxId, rules: EgressSandboxRules): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const change: EgressChanges[number] = { id, ...rules };
    this.#changes.push({ id, json: JSON.stringify(change), resolve, reject });
    if (!this.#isChanging) void this.#sendChanges();
    return promise;
  }

  forget(id: SandboxId): Promise<EgressApplied> {
    return this.#ask({ method: 'DELETE', path: `/sandboxes/${id}` }, egressAppliedSchema);
  }

  async judge(
    question: Omit<EgressQuestion, 'policy'> & { readonly policy: PolicySource },
  ): Promise<EgressJudged> {
    await this.started();
    return await this.#ask(
      { method: 'POST', path: '/judge', json: JSON.stringify(question) },
      egressJudgedSchema,
    );
  }

  async decisions(query: DecisionQuery): Promise<EgressDecisions> {
    await this.started();
    return await this.#ask({ method: 'GET', path: `/decisions${queryText(query)}` }, egressDecisionsSchema);
  }

  traffic(ids: readonly SandboxId[]): Promise<EgressTraffic> {
    const answerMsMax = limits.egressLookAnswerMs;
    return this.#ask(
      { method: 'POST', path: '/traffic', json: JSON.stringify(ids), answerMsMax },
      egressTrafficSchema,
    );
  }

  /** Who reads metrics is told within seconds that it hangs. */
  stats(): Promise<EgressStats> {
    const answerMsMax = limits.egressLookAnswerMs;
    return this.#ask({ method: 'GET', path: '/stats', answerMsMax }, egressStatsSchema);
  }

  /** Also of a process of another version, whose statistics may be other ones. */
  identity(answerMsMax: number = limits.egressAnswerMs): Promise<EgressIdentity> {
    return this.#ask({ method: 'GET', path: '/stats', answerMsMax }, egressIdentitySchema);
  }

  /** Resolves when it has promised to end. */
  async stop(): Promise<void> {
    await this.#ask({ method: 'POST', path: '/stop' }, z.looseObject({}));
  }

  /** Stored decisions, then each new one, until aborted. @throws egress_unavailable where it ends by itself */
  async *follow(query: DecisionQuery, signal: AbortSignal): AsyncGenerator<EgressDecision, void, void> {
    await this.started();
    const path = `/decisions${queryText(query)}`;
    const response = await this.#send({
      method: 'GET',
      path,
      headers: { accept: 'text/event-stream' },
      signal,
      isStream: true,
    });
    if (response.statusCode !== 200) throw await refusal(response);
    for await (const event of serverEvents(response)) yield decisionOf(event);
    throw unavailable('it ended the stream');
  }

  /** False: nobody waits for it any more. */
  async answer(id: string, allow: boolean): Promise<boolean> {
    const path = `/questions/${id}`;
    const response = await this.#send({ method: 'POST', path, json: JSON.stringify({ allow }) });
    const text = await readText(response);
    if (response.statusCode === 200 || response.statusCode === 404) return response.statusCode === 200;
    throw refusalOf(response.statusCode, text);
  }

  /** Until aborted. @throws egress_unavailable where it ends by itself */
  async *followQuestions(signal: AbortSignal): AsyncGenerator<QuestionEvent, void, void> {
    const headers = { accept: 'text/event-stream' };
    const response = await this.#send({ method: 'GET', path: '/questions', headers, signal, isStream: true });
    if (response.statusCode !== 200) throw await refusal(response);
    for await (const event of serverEvents(response)) yield questionEventOf(event);
    throw unavailable('it ended the stream');
  }

  /** While it is followed the port is offered. @throws port_offered, offer_limit, sandbox_not_ready, egress_unavailable */
  async *followOffer(offer: EgressOffer, signal: AbortSignal): AsyncGenerator<OfferEvent, void, void> {
    await this.started();
    const path = `/callers${queryText(offer)}`;
    const response = await this.#send({ method: 'GET', path, signal, isStream: true });
    if (response.statusCode !== 200) throw offerRefusal(offer, await readText(response));
    try {
      for await (const event of serverEvents(response)) yield offerEventOf(event);
    } catch (error) {
      throw signal.aborted || error instanceof AppError
        ? error
        : unavailable('it broke the stream off', error);
    }
    throw unavailable('it ended the stream');
  }

  /** The bytes of a connection to a caller. @throws connection_gone, egress_unavailable */
  takeConnection(id: string): Promise<Socket> {
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const outgoing = request({
      ...noServerName,
      createConnection: () => connect({ path: this.#socketPath, allowHalfOpen: true }),
      path: `/callers/${id}`,
      headers: { connection: 'Upgrade', upgrade: bytesProtocol },
    });
    outgoing.setTimeout(limits.egressAnswerMs, () =>
      outgoing.destroy(new Failure('no_answer', 'no answer in time')),
    );
    outgoing.on('upgrade', (_response, socket, head) => {
      socket.setTimeout(0);
      if (head.length > 0) socket.unshift(head);
      resolve(socket as Socket);
    });
    outgoing.on('response', (response) => {
      response.resume();
      reject(new AppError('connection_gone', 'Nothing waits on this connection any more'));
    });
    outgoing.on('error', (error) => reject(unavailable(error.message, error)));
    outgoing.end();
    return promise;
  }

  /** Its program gets a reset. */
  async refuseConnection(id: string): Promise<void> {
    await this.#ask({ method: 'DELETE', path: `/callers/${id}` }, z.looseObject({}));
  }

  /** Resolves when a connection that says nothing is ended from the other side: at the latest when the process ends. */
  async untilGone(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const socket = connect(this.#socketPath);
    const end = (): void => void socket.destroy();
    signal.addEventListener('abort', end, { once: true });
    socket.on('error', end).on('end', end).on('close', resolve).resume();
    if (signal.aborted) end();
    await promise;
    signal.removeEventListener('abort', end);
  }

  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#agent.destroy();
    closeSync(this.#directory);
  }

  async #sendChanges(): Promise<void> {
    this.#isChanging = true;
    while (this.#changes.length > 0) {
      const changes = this.#nextChanges();
      try {
        const json = `[${changes.map((change) => change.json).join(',')}]`;
        const { problems } = await this.#ask(
          { method: 'PUT', path: '/sandboxes', json },
          egressChangedSchema,
        );
        const refused = new Map(problems.map(({ id, message }) => [id, message]));
        for (const { id, resolve, reject } of changes) {
          const why = refused.get(id);
          if (why === undefined) resolve();
          else reject(refusalFor(why));
        }
      } catch (error) {
        for (const { reject } of changes) reject(error);
      }
    }
    this.#isChanging = false;
  }

  /** The first, and as many behind it as fit. */
  #nextChanges(): readonly Change[] {
    let characters = 0;
    const end = this.#changes.findIndex(({ json }, index) => {
      characters += json.length;
      return index > 0 && (index >= together.changesMax || characters > together.charactersMax);
    });
    return this.#changes.splice(0, end < 0 ? this.#changes.length : end);
  }

  async #ask<T>(question: Question, schema: z.ZodType<T>): Promise<T> {
    const response = await this.#send(question);
    const text = await readText(response);
    if (response.statusCode !== 200) throw refusalOf(response.statusCode, text);
    const parsed = schema.safeParse(parseJson(text));
    if (parsed.success) return parsed.data;
    throw unavailable(`its answer to ${question.method} ${question.path} is none`, parsed.error);
  }

  async #send(question: Question): Promise<IncomingMessage> {
    try {
      return await this.#sendOnce(question);
    } catch (error) {
      if (!(error instanceof StaleConnection)) throw error;
      return await this.#sendOnce(question);
    }
  }

  #sendOnce(question: Question): Promise<IncomingMessage> {
    const { method, path, json, headers = {}, signal, isStream = false } = question;
    const { answerMsMax = limits.egressAnswerMs } = question;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const bytes = json === undefined ? undefined : Buffer.from(json);
    const outgoing = request({
      socketPath: this.#socketPath,
      ...noServerName,
      // A stream stands for hours, and there are few connections for what has to be said meanwhile.
      agent: isStream ? false : this.#agent,
      method,
      path,
      headers: {
        ...headers,
        ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': bytes.length }),
      },
      ...(signal !== undefined && { signal }),
    });
    outgoing.setTimeout(answerMsMax, () => outgoing.destroy(new Failure('no_answer', 'no answer in time')));
    outgoing.on('response', (response) => {
      if (isStream) outgoing.setTimeout(0);
      resolve(response);
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (signal?.aborted === true) reject(signal.reason);
      else if (outgoing.reusedSocket && error.code === 'ECONNRESET') reject(new StaleConnection());
      else reject(unavailable(error.message, error));
    });
    outgoing.end(bytes);
    return promise;
  }
}

export type QuestionEvent =
  | { readonly type: 'open'; readonly open: readonly EgressAsked[] }
  | { readonly type: 'asked'; readonly asked: EgressAsked }
  | { readonly type: 'ended'; readonly end: EgressQuestionEnd };

/** The connection that was kept belonged to a process that has ended. */
class StaleConnection extends Error {}

function unavailable(why: string, cause?: unknown): AppError {
  return new AppError('egress_unavailable', `The egress process does not answer: ${why}`, { cause });
}

async function refusal(response: IncomingMessage): Promise<AppError> {
  return refusalOf(response.statusCode, await readText(response));
}

function refusalOf(status: number | undefined, text: string): AppError {
  const parsed = egressRefusalSchema.safeParse(parseJson(text));
  return refusalFor(parsed.success ? parsed.data.message : `status ${status ?? 0}`);
}

function refusalFor(why: string): AppError {
  // The daemon asks only what is checked already: a refusal is a fault of ours, not a state of the process.
  return new AppError('internal', `The egress process refuses: ${why}`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The schema refuses it, with the request's name.
    return undefined;
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > limits.egressAnswerBytesMax) throw new Failure('answer_too_long', 'the answer is too long');
      parts.push(part);
    }
  } catch (error) {
    throw unavailable((error as Error).message, error);
  }
  return Buffer.concat(parts).toString('utf8');
}

function decisionOf({ data }: ServerEvent): EgressDecision {
  const parsed = egressDecisionSchema.safeParse(parseJson(data));
  if (parsed.success) return parsed.data;
  throw unavailable('it sent no decision', parsed.error);
}

function offerEventOf({ name, data }: ServerEvent): OfferEvent {
  const parsed = egressCallerEventSchema.safeParse(parseJson(data));
  const connection = parsed.data?.connection ?? null;
  if (name === 'offered') return { type: name };
  if (connection !== null && (name === 'connection' || name === 'broken')) return { type: name, connection };
  throw unavailable('it sent no event of an offer', parsed.error);
}

function offerRefusal({ sandbox, port }: EgressOffer, text: string): AppError {
  const { code } = egressRefusalSchema.safeParse(parseJson(text)).data ?? { code: 'none' };
  switch (code) {
    case 'port_offered':
      return new AppError(code, `Another client offers port ${port} to sandbox "${sandbox}"`);
    case 'offer_limit':
      return new AppError(code, `As many ports are offered to sandbox "${sandbox}" as one may have`);
    case 'sandbox_unknown':
      return new AppError('sandbox_not_ready', `The rules of sandbox "${sandbox}" are not in force yet`);
    default:
      return refusalFor(code);
  }
}

function questionEventOf({ name, data }: ServerEvent): QuestionEvent {
  const json = parseJson(data);
  try {
    if (name === 'open') return { type: 'open', open: z.array(egressAskedSchema).parse(json) };
    if (name === 'asked') return { type: 'asked', asked: egressAskedSchema.parse(json) };
    return { type: 'ended', end: egressQuestionEndSchema.parse(json) };
  } catch (error) {
    throw unavailable('it sent no question', error);
  }
}

function queryText(query: DecisionQuery): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) words.set(name, `${value}`);
  return words.size === 0 ? '' : `?${words.toString()}`;
}
