/** `squash box apply`: what a box has written comes to the host, all of it, by path, or as somebody says yes to each. */
import { changeLimits } from '@squash/contract/change-limits';
import type { Change, ChangeApplied } from '@squash/contract/changes';
import { findBox } from '../box/boxes.ts';
import type { BoxRecord } from '../box/record.ts';
import { changedPlace, changeLine, changesOf, chosen, wordsOf } from '../box/changes.ts';
import type { BoxDaemon } from '../box/daemon.ts';
import { patchOf, type PatchPlaces } from '../box/patch.ts';
import { apiPath, sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { askOnTerminal } from '../terminal/confirm.ts';

type Applied = ChangeApplied['items'][number];

export async function run(call: Call): Promise<number> {
  const [word = '', ...paths] = call.positionals;
  const { flags } = call;
  const { daemon, box } = await findBox(call, word);
  const place = changedPlace(box, flags.isSet('place') ? flags.text('place') : undefined);
  const isChosen = chosen(place, wordsOf(box, place, call), process.cwd());
  const unmet = new Map(paths.map((word) => [word, chosen(place, [word], process.cwd())]));
  const changes: Change[] = [];
  const around: Change[] = [];
  for await (const change of changesOf(daemon, box.id, place)) {
    for (const [each, isOf] of unmet) if (isOf(change.path)) unmet.delete(each);
    if (isChosen(change.path)) changes.push(change);
    else if (isNewDirectory(change)) around.push(change);
  }
  // A name comes with the new directories that it is in, each before what it holds.
  changes.unshift(...around.filter((each) => changes.some(({ path }) => path.startsWith(`${each.path}/`))));
  const [missing] = unmet.keys();
  if (missing !== undefined)
    throw new CliFailure('not_found', `the box has written nothing to "${missing}": nothing was applied`);
  const wanted = flags.isSet('interactive')
    ? await askWhileStill(call, { daemon, box, place }, changes)
    : changes;
  if (flags.isSet('dry-run')) {
    if (call.json) printJson({ box: box.id, place, changes: wanted });
    else for (const change of wanted) printLine(changeLine(change));
    return exitCodes.ok;
  }
  const applied = await applyAll(call, daemon, { id: box.id, place, paths: wanted.map(({ path }) => path) });
  return await finish(call, { daemon, box }, applied);
}

function isNewDirectory({ type, change }: Change): boolean {
  return type === 'directory' && change === 'added';
}

async function applyAll(
  { flags }: Call,
  { client }: BoxDaemon,
  { id, place, paths }: { readonly id: string; readonly place: string; readonly paths: readonly string[] },
): Promise<readonly Applied[]> {
  const body = {
    place,
    // Who said yes to a name has seen that it is held back.
    held: flags.isSet('held') || flags.isSet('interactive'),
    outside: flags.isSet('outside'),
    overwrite: flags.isSet('overwrite'),
  };
  const applied: Applied[] = [];
  const [usable, odd] = [paths.filter(isUsable), paths.filter((path) => !isUsable(path))];
  for (let at = 0; at < usable.length; at += changeLimits.pathsMax) {
    const some = usable.slice(at, at + changeLimits.pathsMax);
    const { items } = await client.post<ChangeApplied>(apiPath(['v1', 'sandboxes', id, 'changes', 'apply']), {
      ...body,
      paths: some,
    });
    applied.push(...items);
  }
  const reason = 'its name is too long or has bytes that can’t be said here: copy it by hand';
  return [...applied, ...odd.map((path): Applied => ({ path, outcome: 'refused', reason }))];
}

function isUsable(path: string): boolean {
  return Buffer.byteLength(path) <= changeLimits.pathBytesMax && !/[\p{Cc}\uFFFD]/u.test(path);
}

async function finish(
  call: Call,
  { daemon, box }: { readonly daemon: BoxDaemon; readonly box: BoxRecord },
  applied: readonly Applied[],
): Promise<number> {
  const left = applied.filter(({ outcome }) => outcome !== 'applied' && outcome !== 'same');
  const removes = call.flags.isSet('rm') && left.length === 0;
  if (removes) await daemon.client.delete(sandboxRecordPath(box.id));
  if (call.json) {
    printJson({ box: box.id, removed: removes, items: applied });
    return left.length === 0 ? exitCodes.ok : exitCodes.failed;
  }
  for (const { path, outcome } of applied) {
    if (outcome === 'applied') printLine(visible(path.slice(1)));
  }
  // What a commit consists of, which nobody reads: counted, unless it was named.
  const isObject = ({ path, outcome }: Applied): boolean =>
    call.positionals.length === 1 && outcome === 'held' && path.startsWith('/.git/objects/');
  for (const { path, outcome, reason } of left.filter((each) => !isObject(each))) {
    printNote(`squash: ${visible(path.slice(1))}: ${outcome}: ${visible(reason ?? '')}`);
  }
  const objects = left.filter(isObject).length;
  if (objects > 0)
    printNote(
      `squash: and ${objects} of git’s objects: held; to have the commits: squash box fetch ${box.name ?? box.id}`,
    );
  if (left.some(({ outcome }) => outcome === 'held'))
    printNote('squash: to take what is held back along: --held');
  if (left.some(({ outcome }) => outcome === 'conflict'))
    printNote('squash: to overwrite what was changed meanwhile: --overwrite');
  return left.length === 0 ? exitCodes.ok : exitCodes.failed;
}

interface Asked {
  readonly daemon: BoxDaemon;
  readonly box: BoxRecord;
  readonly place: string;
}

/** What somebody says yes to is what comes: nothing runs in the box from the first look to the last answer. @throws box_running */
async function askWhileStill(
  call: Call,
  { daemon, box, place }: Asked,
  changes: readonly Change[],
): Promise<readonly Change[]> {
  checkStill(box);
  const wanted = await askForEach({ client: daemon.client, id: box.id, place }, changes);
  checkStill((await findBox(call, box.id)).box);
  return wanted;
}

function checkStill({ id, state }: BoxRecord): void {
  if (state === 'stopped' || state === 'paused' || state === 'failed') return;
  throw new CliFailure(
    'box_running',
    `box ${id} runs, and what you say yes to could be another by then: nothing was applied; to end it: squash box stop ${id}`,
  );
}

const question = 'apply this [y,n,a,q,?]? ';
const help = 'y: yes  n: no  a: this and all that follow  q: no more  ?: this';

async function askForEach(places: PatchPlaces, changes: readonly Change[]): Promise<readonly Change[]> {
  const wanted: Change[] = [];
  for (const [at, change] of changes.entries()) {
    // A directory comes along with the first name in it that is wanted.
    if (change.type === 'directory' && change.change !== 'removed') {
      wanted.push(change);
      continue;
    }
    for (const line of [changeLine(change), ...((await patchOf(places, change)) ?? [])]) printNote(line);
    const answer = answered();
    if (answer === 'a') return withoutEmpty([...wanted, ...changes.slice(at)]);
    if (answer === 'q') break;
    if (answer === 'y') wanted.push(change);
  }
  return withoutEmpty(wanted);
}

function answered(): string {
  for (;;) {
    const answer = askOnTerminal(question).toLowerCase();
    if (['y', 'n', 'a', 'q'].includes(answer)) return answer;
    printNote(help);
  }
}

/** Directories that nothing came along in are left, too. */
function withoutEmpty(wanted: readonly Change[]): readonly Change[] {
  const isDirectory = ({ type, change }: Change): boolean => type === 'directory' && change !== 'removed';
  const files = wanted.filter((each) => !isDirectory(each));
  return wanted.filter(
    (each) => !isDirectory(each) || files.some(({ path }) => path.startsWith(`${each.path}/`)),
  );
}
