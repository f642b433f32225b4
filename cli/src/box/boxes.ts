/** Boxes as sandboxes of the API: those with paths of the host. Found by id or name, and ended as they deserve. */
import { nativeSandboxesPath, sandboxRecordPath } from '../client/client.ts';
import { listAll } from '../client/pages.ts';
import type { Call } from '../command.ts';
import { CliFailure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { type BoxDaemon, runningDaemon, withBoxDaemon } from './daemon.ts';
import { type BoxRecord, repositoryOf } from './record.ts';

/** Of every box, oldest first. */
export async function listBoxes({ client }: BoxDaemon): Promise<readonly BoxRecord[]> {
  const boxes = (await listAll<BoxRecord>(client, nativeSandboxesPath)).filter(isBox);
  return boxes.toSorted((one, other) => (one.created_at < other.created_at ? -1 : 1));
}

/** @throws sandbox_not_found */
export async function findBox(
  call: Pick<Call, 'flags' | 'client'>,
  word: string,
): Promise<{ readonly daemon: BoxDaemon; readonly box: BoxRecord }> {
  const found = await withBoxDaemon(call, 'list', async (daemon) => ({
    daemon,
    boxes: await listBoxes(daemon),
  }));
  const boxes = found?.boxes ?? [];
  const named = boxes.filter(({ name }) => name === word);
  const box = boxes.find(({ id }) => id === word) ?? named[0];
  if (found === undefined || box === undefined)
    throw new CliFailure('sandbox_not_found', `there is no box "${word}"; try: squash box ps`);
  if (box.id !== word && named.length > 1)
    throw new CliFailure('usage', `${named.length} boxes are called "${word}": name one by its id`);
  return { daemon: found.daemon, box };
}

/** A daemon of an earlier release says nothing of it. */
function isBox({ host_paths: paths }: Partial<Pick<BoxRecord, 'host_paths'>>): boolean {
  return paths !== undefined && paths !== null;
}

export interface EndWish {
  /** Whether there is anything in it that somebody may want. */
  readonly hasWork: () => Promise<boolean>;
  readonly keep?: boolean;
  readonly remove?: boolean;
}

/**
 * Removes a box, or stops it where it wrote to the repository. Undefined: it is removed. Its processes are ended either way, what they
 * were writing in this moment included.
 */
export async function endBox(
  daemon: BoxDaemon,
  box: Pick<BoxRecord, 'id'>,
  { hasWork, keep = false, remove = false }: EndWish,
): Promise<BoxRecord | undefined> {
  if (remove || !(keep || (await hasWork()))) {
    await daemon.client.delete(sandboxRecordPath(box.id));
    return undefined;
  }
  return await stopBox(daemon, box.id);
}

/** Its processes end, its files stay, for as long as nobody removes them. */
export async function stopBox({ client }: BoxDaemon, id: string): Promise<BoxRecord> {
  return await client.post<BoxRecord>(sandboxRecordPath(id, 'pause'), { keep: 'files' });
}

/** A stopped or paused one goes on. */
export async function wakeBox({ client }: BoxDaemon, { id, state }: BoxRecord): Promise<void> {
  if (state === 'stopped' || state === 'paused') await client.post(sandboxRecordPath(id, 'resume'), {});
}

/** @param isAsked whether it was to be kept in any case: it may hold nothing */
export function tellKept(box: BoxRecord, isAsked = false): void {
  const where = repositoryOf(box);
  const what = where === undefined || isAsked ? 'is kept' : `keeps what was written to ${visible(where)}`;
  printNote(`squash: box ${box.id} ${what}; to see it: squash box diff ${box.id}`);
  printNote(`squash: to throw it away: squash box rm ${box.id}`);
}

/** For whoever must not start a daemon to know. */
export async function runningBoxes(): Promise<readonly BoxRecord[]> {
  const daemon = await runningDaemon();
  return daemon === undefined ? [] : await listBoxes(daemon);
}
