/**
 * The guest client's operations as the attempts use them: each returns as text what the daemon got to see of it, be it
 * the result or the error, because both are searched for what should have stayed inside or outside.
 *
 * Paths are given as an API's client would: inside the attempt's directory, which the attacker owns.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import { drain } from '../support/real-guest.ts';
import { begin, type FileAttempt, type Ground, harmText, sizeText } from './file-attempt.ts';

export type Operate = FileAttempt['operate'];

/** Enough for a swap in between to be met many times; each is well under a millisecond. */
const rounds = 200;
/** Of a file that never ends. */
const takenBytesMax = 8 * 1024 * 1024;
/** How `stat`'s text begins for a regular file. */
export const isFile = 'file size=';
const entriesMax = 20_000;
const stirsMax = 25;

/** What the operation says, be it its result or its error. */
export async function told(operation: () => Promise<string>): Promise<string> {
  try {
    return await operation();
  } catch (error) {
    if (error instanceof AppError) return `${error.code} ${error.message}`;
    throw error;
  }
}

export function often(operate: Operate): Operate {
  return async (ground) => {
    const seen = new Set<string>();
    for (let round = 0; round < rounds; round += 1) seen.add(await told(() => operate(ground)));
    return [...seen].join('\n');
  };
}

type PathOf = string | ((ground: Ground) => string);
const at = (ground: Ground, path: PathOf): string =>
  typeof path === 'string' ? `${ground.directory}/${path}` : path(ground);

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

export const read =
  (path: PathOf): Operate =>
  (ground) =>
    told(async () => {
      let text = '';
      for await (const chunk of ground.guest.files.read(at(ground, path))) {
        text += chunk.toString('latin1', 0, 16_384);
        if (text.length > takenBytesMax) break;
      }
      return text;
    });

/** Takes so much and then leaves, as a client does that has a limit. */
export const readSome =
  (path: PathOf): Operate =>
  (ground) =>
    told(async () => {
      let taken = 0;
      for await (const chunk of ground.guest.files.read(at(ground, path))) {
        taken += chunk.length;
        if (taken > takenBytesMax) break;
      }
      return `took ${String(taken)}`;
    });

export const readRange =
  (path: PathOf): Operate =>
  (ground) =>
    told(async () => {
      let taken = 0;
      const range = { offset: 2 ** 24, length: 100_000 };
      for await (const chunk of ground.guest.files.read(at(ground, path), range)) taken += chunk.length;
      return taken !== range.length
        ? `${harmText}${String(taken)} of ${String(range.length)}`
        : `took ${String(taken)}`;
    });

export const write =
  (path: PathOf, options: { readonly mode?: number; readonly createParents?: boolean } = {}): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.write(at(ground, path), bytes('overwritten'), options);
      return 'written';
    });

export const stat =
  (path: PathOf, followLinks = true): Operate =>
  (ground) =>
    told(async () => {
      const found = await ground.guest.files.stat(at(ground, path), { followLinks });
      return `${found.type} ${sizeText(found.size)}`;
    });

export const list =
  (path: PathOf): Operate =>
  (ground) =>
    told(async () => {
      let count = 0;
      let names = '';
      for await (const entry of ground.guest.files.list(at(ground, path))) {
        count += 1;
        if (names.length < 10_000) names += `${entry.path.toString('latin1')} ${sizeText(entry.stat.size)}\n`;
        if (count > entriesMax) break;
      }
      return names;
    });

export const make =
  (path: PathOf, options: { readonly mode?: number; readonly createParents?: boolean } = {}): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.makeDirectory(at(ground, path), options);
      return 'made';
    });

export const move =
  (from: PathOf, to: PathOf): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.move(at(ground, from), at(ground, to));
      return 'moved';
    });

export const remove =
  (path: PathOf, recursive = false): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.remove(at(ground, path), { recursive });
      return 'removed';
    });

/** Watches while the host stirs its folder, until something of it is heard or it was stirred often enough. */
export const watch =
  (path: PathOf, recursive: boolean): Operate =>
  (ground) =>
    told(async () => {
      const stop = new AbortController();
      const events = await ground.guest.files.watch(at(ground, path), { recursive }, stop.signal);
      const heard = heardOf(events, ground.bait.secrets);
      const isOver = heard.then(
        () => true,
        () => true,
      );
      for (let stirred = 0; stirred < stirsMax; stirred += 1) {
        ground.bait.stir();
        if (await Promise.race([isOver, delay(20).then(() => false)])) break;
      }
      stop.abort(new AppError('guest_failed', 'heard enough'));
      return heard;
    });

async function heardOf(
  events: AsyncIterable<{ readonly change: string; readonly path: Buffer }>,
  secrets: readonly string[],
): Promise<string> {
  let heard = '';
  for await (const event of events) {
    heard = `${heard.slice(-10_000)}${event.change} ${event.path.toString('latin1')}\n`;
    if (secrets.some((secret) => heard.includes(secret))) break;
  }
  return heard;
}

/** Asks for a watch and does not listen while the tree changes without end. */
export const watchUnheard: Operate = (ground) =>
  told(async () => {
    const stop = new AbortController();
    const events = await ground.guest.files.watch(at(ground, 'busy'), { recursive: true }, stop.signal);
    await drain(await begin(ground, 'sleep 1'));
    stop.abort(new AppError('guest_failed', 'heard enough'));
    for (let next = await events.next(); next.done !== true; next = await events.next()) continue;
    return 'over';
  });
