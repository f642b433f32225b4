/**
 * The directories of v1 under `/workspace/ipc`: what the agent's programs drop in `messages` and `tasks` is asked for over the channel, in
 * order and once, and what did not come of it the agent is told as a message in `input`: the original says nothing.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type ChannelClient, itemsOf } from './channel-client.ts';
import { dropped, put, readDropped, remove, setAside } from './places.ts';
import { type Done, send, task, told } from './register.ts';
import { taskOf } from './tasks.ts';

export const ipc = '/workspace/ipc';
const input = join(ipc, 'input');
const kinds = { messages: send, tasks: task } as const;
type Kind = keyof typeof kinds;

/** Of one look, so that the runner's output is seen between two. */
const filesMax = 64;
/** Whoever writes a file without renaming it has ended by then. */
const partialMs = 2_000;
/** A program that drops what is nothing does not get its agent told without end. */
const tellsMax = 100;

export class DropBox {
  readonly #channel: ChannelClient;
  readonly #isMain: boolean;
  /** When a file was first seen that was not whole. */
  readonly #partial = new Map<string, number>();
  /** What can't be moved away is passed over. */
  readonly #stuck = new Set<string>();
  readonly #told = new Map<string, string>();
  #count = 0;

  constructor(channel: ChannelClient, isMain: boolean) {
    this.#channel = channel;
    this.#isMain = isMain;
    // What another run left in this sandbox is none of this one's.
    for (const name of [...Object.keys(kinds), 'input', 'errors']) {
      remove(join(ipc, name));
      mkdirSync(join(ipc, name), { recursive: true });
    }
  }

  /** Does what lies there. @returns whether anything did */
  async take(): Promise<boolean> {
    let has = false;
    for (const kind of Object.keys(kinds) as Kind[])
      for (const name of this.#names(kind).slice(0, filesMax)) {
        has = true;
        await this.#do(kind, name);
      }
    return has;
  }

  /** Nothing that was dropped waits. */
  get isEmpty(): boolean {
    return !Object.keys(kinds).some((kind) => this.#names(kind as Kind).length > 0);
  }

  /** The runner has read all that it was told. */
  get isRead(): boolean {
    return dropped(input).length === 0;
  }

  /** The runner ends when it sees it. It looks for it before it looks for messages. */
  close(): void {
    put(join(input, '_close'), '');
  }

  tell(text: string): void {
    this.#count += 1;
    if (this.#count > tellsMax) return;
    const name = `${Date.now()}-${`${this.#count}`.padStart(4, '0')}.json`;
    this.#told.set(name, text);
    put(join(input, name), { type: 'message', text });
  }

  /** What it was told and has not read. */
  untold(): readonly string[] {
    const unread = new Set(dropped(input));
    return [...this.#told].filter(([name]) => unread.has(name)).map(([, text]) => text);
  }

  /** What the agent's tools read: written anew, not kept up to date by others' changes. */
  async show(): Promise<void> {
    const tasks = itemsOf(await this.#channel.look('/schedules'));
    put(join(ipc, 'current_tasks.json'), tasks.map(taskOf));
    const chats = this.#isMain ? itemsOf(await this.#channel.look('/chats')) : [];
    const lastSync = new Date().toISOString();
    const groups = chats.map(({ name }) => ({
      jid: name,
      name,
      lastActivity: lastSync,
      isRegistered: true,
    }));
    put(join(ipc, 'available_groups.json'), { groups, lastSync });
  }

  #names(kind: Kind): readonly string[] {
    return dropped(join(ipc, kind)).filter((name) => !this.#stuck.has(`${kind}/${name}`));
  }

  async #do(kind: Kind, name: string): Promise<void> {
    const path = join(ipc, kind, name);
    const found = readDropped(path);
    if (found.kind === 'gone') return;
    if (found.kind === 'partial' && !this.#isOld(path)) return;
    this.#partial.delete(path);
    const about = `${kind}/${name}`;
    const done: Done =
      found.kind === 'whole'
        ? await kinds[kind](this.#channel, about, found.fields)
        : {
            what: `The file "${about}"`,
            outcome: { state: 'failed', why: found.kind === 'bad' ? found.why : 'it is no JSON object' },
          };
    const { state } = done.outcome;
    const isAway =
      state === 'failed' ? setAside(path, join(ipc, 'errors'), `${kind}-${name}`.slice(-200)) : remove(path);
    if (!isAway) this.#stuck.add(about);
    if (state !== 'done') this.tell(told(done));
    if (kind === 'tasks') await this.show();
  }

  #isOld(path: string): boolean {
    const seen = this.#partial.get(path) ?? performance.now();
    this.#partial.set(path, seen);
    return performance.now() - seen > partialMs;
  }
}
