/**
 * The run's channel as an adapter asks it, from inside of the sandbox: again until there is an answer, with the same id. An adapter
 * is a program of the agent's like any other: what it says is judged as if the agent had said it.
 */
import { request } from 'node:http';

export type Fields = Readonly<Record<string, unknown>>;

export interface Outcome {
  readonly state: 'done' | 'held' | 'denied' | 'failed';
  /** The rule that decided, or why it failed. */
  readonly why: string;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One request. */
const answerMs = 30_000;
const againMs = 500;

export class ChannelClient {
  readonly #url: URL;
  /** Who hears nothing for so long gives up. */
  readonly #giveUpMs: number;
  readonly #nonce = Math.random().toString(36).slice(2, 8);
  #count = 0;

  constructor(url: string, giveUpMs = 60_000) {
    this.#url = new URL(url);
    this.#giveUpMs = giveUpMs;
  }

  /** Undefined: it was refused, or nobody answered. */
  async look(path: string): Promise<Fields | undefined> {
    const answer = await this.#ask('GET', path);
    return answer?.status === 200 ? fieldsOf(answer.text) : undefined;
  }

  /** @param about what names the action in the list of them, such as a file */
  async act(about: string, action: Fields): Promise<Outcome> {
    this.#count += 1;
    const plain = about.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(-80);
    const id = `${process.env['SQUASH_RUN'] ?? ''}-${this.#nonce}-${this.#count}-${plain}`;
    const answer = await this.#ask('POST', '/actions', JSON.stringify({ id, ...action }));
    if (answer === undefined) return { state: 'failed', why: 'the channel did not answer' };
    const { state, rule, reason, message } = fieldsOf(answer.text) ?? {};
    const why = textOf(reason) ?? textOf(rule) ?? textOf(message) ?? `status ${answer.status}`;
    return { state: isState(state) ? state : 'failed', why };
  }

  async #ask(method: string, path: string, body = ''): Promise<Answer | undefined> {
    const began = performance.now();
    for (;;) {
      const answer = await this.#once(method, path, body).catch(() => undefined);
      // A daemon that is away comes back; one that is asked too fast says so.
      if (answer !== undefined && answer.status !== 429 && answer.status < 500) return answer;
      if (performance.now() - began > this.#giveUpMs) return undefined;
      await pause(againMs);
    }
  }

  #once(method: string, path: string, body: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const asking = request(this.#url, { method, path, headers, agent: false }, (response) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString('utf8') }),
        );
      });
      asking.setTimeout(answerMs, () => asking.destroy());
      asking.on('error', reject);
      asking.end(body);
    });
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

/** Undefined where it is no object. */
export function fieldsOf(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    // No JSON.
    return undefined;
  }
}

/** Undefined where it is no text with something in it. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function itemsOf(fields: Fields | undefined): readonly Fields[] {
  const items = fields?.['items'];
  return Array.isArray(items) ? (items as readonly Fields[]) : [];
}

function isState(value: unknown): value is Outcome['state'] {
  return value === 'done' || value === 'held' || value === 'denied' || value === 'failed';
}
