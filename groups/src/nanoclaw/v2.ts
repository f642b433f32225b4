/**
 * Runs an unmodified agent runner of NanoClaw's version 2 as a group's command, as `v1.ts` does for version 1; it needs a Node with `node:sqlite`.
 *
 * What a newcomer would get wrong: this runner never ends. When it has acknowledged all that it was given, and nothing comes of it for a while, it
 * is ended: what it knows is in the two databases.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { text as textOfStream } from 'node:stream/consumers';
import { ChannelClient, fieldsOf, itemsOf, pause, textOf } from './channel-client.ts';
import { link, linkHome } from './home.ts';
import { Mailbox, type OutRow } from './mailbox.ts';
import { spoken } from './markers.ts';
import { put, readDropped } from './places.ts';
import { messagesIn } from './prompt-messages.ts';
import { type Done, send, task, told } from './register.ts';
import { warn, Warnings } from './warnings.ts';

const lookMs = 500;
const quietMs = 1_000 * (Number(process.env['NANOCLAW_QUIET_S']) || 3);
/** It acknowledges before it writes what it answers: so often it is looked for that as well. */
const quietLooks = 3;
/** Of what it is told in the middle of a turn it does not say when it has read it to the end. */
const toldMs = 60_000;
const endMs = 5_000;
const tellsMax = 100;
const heartbeat = '/workspace/.heartbeat';
const folder = '/workspace/agent';
const chat = process.env['SQUASH_CHAT'] ?? '';

class Run {
  readonly #channel: ChannelClient;
  readonly #mailbox: Mailbox;
  readonly #warnings = new Warnings();
  #lastMs = performance.now();
  #beat = 0;
  /** Since the last sign of it; a slow machine's take longer. */
  #looks = 0;
  #tells = 0;
  /** Since when it has something to answer that it was told. */
  #toldMs: number | undefined;

  constructor(channel: ChannelClient, mailbox: Mailbox) {
    this.#channel = channel;
    this.#mailbox = mailbox;
  }

  /** @returns its exit code */
  async carry([program = '', ...words]: readonly string[]): Promise<number> {
    const runner = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    let end: string | number | undefined;
    const ended = new Promise<void>((resolve) => {
      runner.once('error', (error) => resolve(void (end = error.message)));
      runner.once('exit', (code, signal) => resolve(void (end = signal ?? code ?? 1)));
    });
    for (const stream of [runner.stdout, runner.stderr])
      stream.on('data', (data: Buffer) => this.#logged(data.toString('utf8')));
    while (end === undefined && !this.#isOver()) {
      await this.#take();
      await Promise.race([pause(lookMs), ended]);
    }
    const isOurs = end === undefined;
    if (isOurs) await stop(runner, ended);
    while (await this.#take()) continue;
    if (isOurs || end === 0) return 0;
    const how = typeof end === 'number' ? `the runner ended with ${end}` : `the runner: ${end ?? ''}`;
    warn(`\n${`${how}: ${this.#warnings.last}`.slice(-180)}`);
    return typeof end === 'number' ? end : 1;
  }

  #logged(text: string): void {
    this.#sign();
    if (/^\[poll-loop\] Result:/m.test(text)) this.#toldMs = undefined;
    this.#warnings.take(text);
  }

  #isOver(): boolean {
    const beat = beatOf();
    if (beat !== this.#beat) this.#sign();
    this.#beat = beat;
    this.#looks += 1;
    this.#mailbox.look();
    const isTold = this.#toldMs !== undefined && performance.now() - this.#toldMs < toldMs;
    const isQuiet = this.#looks > quietLooks && performance.now() - this.#lastMs >= quietMs;
    return !isTold && this.#mailbox.isDone && isQuiet;
  }

  #sign(): void {
    this.#lastMs = performance.now();
    this.#looks = 0;
  }

  /** @returns whether there was anything */
  async #take(): Promise<boolean> {
    const rows = this.#mailbox.taken();
    for (const row of rows) {
      this.#sign();
      await this.#do(row);
    }
    return rows.length > 0;
  }

  async #do(row: OutRow): Promise<void> {
    const done = await this.#done(row);
    if (done === undefined) return;
    const { outcome } = done;
    this.#mailbox.mark(row, outcome.state === 'done');
    if (row.kind === 'system') await this.#list();
    if (outcome.state === 'done') return;
    this.#tells += 1;
    if (this.#tells > tellsMax) return;
    this.#toldMs = performance.now();
    this.#mailbox.tell(told(done));
  }

  /** Undefined: it was said, which is all. */
  async #done(row: OutRow): Promise<Done | undefined> {
    const content = fieldsOf(row.content ?? '');
    const what = 'The message';
    if (content === undefined)
      return { what, outcome: { state: 'failed', why: 'it is too long, or no JSON object' } };
    if (row.kind === 'system') return await task(this.#channel, row.id, asTask(content));
    if (textOf(content['operation']) !== undefined || Array.isArray(content['files']))
      return {
        what,
        outcome: { state: 'failed', why: 'files, changes and reactions are not sent from here' },
      };
    const text = spoken(textOf(content['text']) ?? '');
    if (text !== null && row.to !== null && row.to !== chat)
      return await send(this.#channel, row.id, { type: 'message', chatJid: row.to, text });
    // Marked before it is said: a run that ends between is none that says it twice.
    this.#mailbox.mark(row, true);
    if (text !== null) process.stdout.write(`${text}\n`);
    return undefined;
  }

  async #list(): Promise<void> {
    this.#mailbox.listTasks(itemsOf(await this.#channel.look('/schedules')));
  }

  async begin(prompt: string): Promise<void> {
    for (const { name } of itemsOf(await this.#channel.look('/chats')))
      this.#mailbox.addDestination(String(name));
    await this.#list();
    for (const message of messagesIn(prompt)) this.#mailbox.give(message);
  }
}

/** As version 1 has them. */
function asTask({ action, recurrence, processAfter, ...rest }: Readonly<Record<string, unknown>>) {
  const cron = textOf(recurrence);
  const once = textOf(processAfter);
  return {
    ...rest,
    type: action,
    targetJid: chat,
    context_mode: 'group',
    ...(once !== undefined && { schedule_type: 'once', schedule_value: once }),
    ...(cron !== undefined && { schedule_type: 'cron', schedule_value: cron }),
  };
}

function beatOf(): number {
  try {
    return statSync(heartbeat).mtimeMs;
  } catch {
    // The agent has removed it.
    return 0;
  }
}

async function stop(runner: ChildProcess, ended: Promise<void>): Promise<void> {
  runner.kill('SIGTERM');
  await Promise.race([ended, pause(endMs)]);
  runner.kill('SIGKILL');
}

/** Which the original's host writes, and mounts over the folder's own. */
function configure(): void {
  const path = `${folder}/container.json`;
  if (readDropped(path).kind !== 'gone') return;
  put(path, {
    provider: 'claude',
    assistantName: process.env['ASSISTANT_NAME'] ?? '',
    groupName: process.env['SQUASH_GROUP'],
    agentGroupId: process.env['SQUASH_GROUP'],
    maxMessagesPerPrompt: 200,
    mcpServers: {},
  });
}

async function main(): Promise<void> {
  const prompt = await textOfStream(process.stdin);
  linkHome();
  link('/workspace/group', folder);
  configure();
  writeFileSync(heartbeat, '');
  const channel = new ChannelClient(process.env['SQUASH_CHANNEL'] ?? '');
  const run = new Run(channel, Mailbox.open(chat));
  await run.begin(prompt);
  process.exitCode = await run.carry(process.argv.slice(1));
  process.stdout.write('', () => process.exit());
}

await main();
