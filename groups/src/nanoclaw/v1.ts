/**
 * Runs an unmodified agent runner of NanoClaw's version 1 as a group's command: `node -e TEXT -- COMMAND…`, by uid 1000, inside of the
 * run's sandbox. To the runner it is the original's host; to Squash it is a part of the agent, with no right of its own.
 *
 * What a newcomer would get wrong: the runner does not say when it has nothing more to do, and does not end by itself. It keeps its
 * query open for further messages; so a result, and then nothing for a while, is the end, which `_close` tells it.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text as textOfStream } from 'node:stream/consumers';
import { StringDecoder } from 'node:string_decoder';
import { ChannelClient, pause, textOf } from './channel-client.ts';
import { DropBox } from './drop-box.ts';
import { linkHome, session } from './home.ts';
import { Markers, type Result } from './markers.ts';
import { put, readDropped } from './places.ts';
import { isOfSchedules, messagesIn } from './prompt-messages.ts';
import { timeZone } from './tasks.ts';
import { warn, Warnings } from './warnings.ts';

/** What of a run the next one of its chat has to know. */
const stateFile = join(session, '.nanoclaw.json');
const lookMs = 500;
/** So long after a result nothing comes of an agent that has ended its turn. */
const quietMs = 1_000 * (Number(process.env['NANOCLAW_QUIET_S']) || 3);
/** A runner that has not read by then what it was told does not look. */
const unreadMs = 30_000;
/** Behind the end of a runner whose own children hold its output. */
const lingerMs = 1_000;
/** Of a conversation that is not there any more: the next try begins a new one. */
const stale = /no conversation found|ENOENT.*\.jsonl|session.*not found/i;

class Run {
  readonly #box: DropBox;
  readonly #warnings = new Warnings();
  readonly #markers = new Markers();
  readonly #resumed: string | undefined;
  #session: string | undefined;
  #lastMs = performance.now();
  #last: Result | undefined;
  #error: string | undefined;
  #isClosing = false;

  constructor(box: DropBox, resumed: string | undefined) {
    this.#box = box;
    this.#resumed = resumed;
    this.#session = resumed;
  }

  /** @returns its exit code */
  async carry(command: readonly string[], wish: object): Promise<number> {
    const [program = '', ...words] = command;
    const runner = spawn(program, words, { stdio: ['pipe', 'pipe', 'pipe'] });
    const ended = new Promise<string | number>((resolve) => {
      runner.once('error', (error) => resolve(error.message));
      runner.once('exit', (code, signal) => resolve(signal ?? code ?? 1));
    });
    const closed = new Promise((resolve) => runner.once('close', resolve));
    // It may end without having read it.
    runner.stdin.on('error', () => undefined);
    runner.stdin.end(JSON.stringify(wish));
    const decoder = new StringDecoder('utf8');
    runner.stdout.on('data', (data: Buffer) => this.#printed(decoder.write(data)));
    runner.stderr.on('data', (data: Buffer) => {
      this.#lastMs = performance.now();
      this.#warnings.take(data.toString('utf8'));
    });
    let end: string | number | undefined;
    void ended.then((how) => (end = how));
    while (end === undefined) {
      if (await this.#box.take()) this.#lastMs = performance.now();
      if (this.#isOver()) this.#close();
      await Promise.race([pause(lookMs), ended]);
    }
    await Promise.race([closed, pause(lingerMs)]);
    // What it dropped last; a file that is not whole has its time.
    while (await this.#box.take()) await pause(lookMs / 5);
    this.#keep();
    return this.#told(end);
  }

  #printed(text: string): void {
    this.#lastMs = performance.now();
    const { results, rest } = this.#markers.take(text);
    for (const result of results) this.#heard(result);
    if (rest.trim() !== '') this.#warnings.take(rest);
  }

  #heard(result: Result): void {
    this.#last = result;
    if (result.text !== null && !result.isError) process.stdout.write(`${result.text}\n`);
    if (result.isError) this.#error = result.error ?? 'it does not say why';
    const isStale = result.isError && this.#resumed !== undefined && stale.test(result.error ?? '');
    this.#session = isStale ? undefined : (result.session ?? this.#session);
    this.#keep();
  }

  /** A result without a text comes when a query has ended: then it waits for sure. */
  #isOver(): boolean {
    if (this.#isClosing || this.#last === undefined || !this.#box.isEmpty) return false;
    const quiet = this.#last.text === null ? lookMs : quietMs;
    return performance.now() - this.#lastMs >= (this.#box.isRead ? quiet : unreadMs);
  }

  #close(): void {
    this.#isClosing = true;
    this.#box.close();
  }

  #keep(): void {
    put(stateFile, { sessionId: this.#session ?? null, untold: this.#box.untold() });
  }

  #told(end: string | number): number {
    if (end === 0 && this.#error === undefined) return 0;
    const how = typeof end === 'number' ? `the runner ended with ${end}` : `the runner: ${end}`;
    // The last bytes are what stands in the run's reason.
    warn(`\n${(this.#error ?? `${how}: ${this.#warnings.last}`).slice(-180)}`);
    return typeof end === 'number' && end !== 0 ? end : 1;
  }
}

async function main(): Promise<void> {
  const prompt = await textOfStream(process.stdin);
  linkHome();
  const channel = new ChannelClient(process.env['SQUASH_CHANNEL'] ?? '');
  const tier = ((await channel.look('/self'))?.['tier'] ?? {}) as { readonly name?: string };
  const isMain = tier.name === 'main';
  const box = new DropBox(channel, isMain);
  await box.show();
  const kept = readDropped(stateFile);
  const { sessionId, untold } = kept.kind === 'whole' ? kept.fields : {};
  for (const text of Array.isArray(untold) ? (untold as unknown[]) : [])
    if (typeof text === 'string') box.tell(text);
  const resumed = textOf(sessionId);
  process.exitCode = await new Run(box, resumed).carry(process.argv.slice(1), {
    prompt: `<context timezone="${timeZone}" />\n${prompt}`,
    ...(resumed !== undefined && { sessionId: resumed }),
    groupFolder: process.env['SQUASH_GROUP'],
    chatJid: process.env['SQUASH_CHAT'],
    isMain,
    isScheduledTask: isOfSchedules(messagesIn(prompt)),
    ...(process.env['ASSISTANT_NAME'] !== undefined && { assistantName: process.env['ASSISTANT_NAME'] }),
  });
  // Children of the runner may hold its output open; both of ours are written by now.
  process.stdout.write('', () => process.exit());
}

await main();
