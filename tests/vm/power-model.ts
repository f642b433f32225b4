/**
 * What must be there after a power cut, from what the clients were told before it.
 *
 * Promised when it is answered: a sandbox's removal, a snapshot, a restore, a policy, a secret, and whatever a program in a
 * sandbox has synced, with its sandbox. Promised a second later: that a sandbox exists, and the records of commands. A second is
 * nothing that an emulated machine keeps, so those count as due that were answered before something was asked for whose answer
 * is a promise: it brings all that came before to the disk. What was asked for and not answered may have happened or not.
 */
export interface Wanted {
  readonly op: 'create' | 'write' | 'job' | 'policy' | 'secret' | 'snapshot' | 'restore' | 'destroy';
  readonly id: string;
  /** The written file's number, the snapshot's label. */
  readonly what: string;
}

export type PowerEvent =
  | (Wanted & { readonly is: 'wanted' })
  | (Wanted & { readonly is: 'refused'; readonly said: string })
  | (Wanted & { readonly is: 'answered'; readonly said: string });

/** What holds before any was asked for. */
export const unset = '';

const promised: readonly Wanted['op'][] = ['destroy', 'snapshot', 'restore', 'policy'];

export interface BoxAfterCut {
  readonly id: string;
  isGone: 'no' | 'perhaps' | 'yes';
  /** Files with their content. Two sets while it is open whether a restore has happened. */
  synced: readonly ReadonlySet<string>[];
  /** Label → digest. */
  readonly snapshots: Map<string, string>;
  readonly records: Map<number, string>;
  readonly jobs: number[];
  /** One of these holds. */
  policy: readonly string[];
  secret: readonly string[];
}

interface Growing extends BoxAfterCut {
  readonly at: Map<string, ReadonlySet<string>>;
}

/** @throws where a client was refused */
export function afterCut(events: readonly PowerEvent[]): readonly BoxAfterCut[] {
  const boxes = new Map<string, Growing>();
  const due = dueBefore(events);
  for (const [index, event] of events.entries()) {
    if (event.is === 'refused') throw new Error(`refused: ${JSON.stringify(event)}`);
    const box = boxes.get(event.id) ?? newBox(event.id);
    boxes.set(event.id, box);
    if (event.is === 'wanted') begin(box, event);
    else finish(box, event, index < due);
  }
  return [...boxes.values()];
}

/** Where the last thing was asked for whose answer brought everything before it to the disk. */
function dueBefore(events: readonly PowerEvent[]): number {
  const isSame = (one: Wanted, other: Wanted): boolean =>
    one.op === other.op && one.id === other.id && one.what === other.what;
  const last = events.findLast((event) => event.is === 'answered' && promised.includes(event.op));
  return last === undefined
    ? 0
    : events.findLastIndex((event) => event.is === 'wanted' && isSame(event, last));
}

function newBox(id: string): Growing {
  return {
    id,
    isGone: 'perhaps',
    synced: [new Set()],
    snapshots: new Map(),
    records: new Map(),
    jobs: [],
    policy: [unset],
    secret: [unset],
    at: new Map(),
  };
}

function begin(box: Growing, { op, what }: Wanted): void {
  if (op === 'destroy') box.isGone = 'perhaps';
  if (op === 'policy') box.policy = [...box.policy, what];
  if (op === 'secret') box.secret = [...box.secret, what];
  if (op === 'restore') box.synced = [...box.synced, box.at.get(what) ?? new Set()];
}

function finish(box: Growing, event: PowerEvent & { readonly is: 'answered' }, isDue: boolean): void {
  const { op, what, said } = event;
  const now = box.synced[0] ?? new Set();
  switch (op) {
    case 'create':
      if (isDue) box.isGone = 'no';
      return;
    case 'write': {
      const record = JSON.parse(said) as { readonly seq: number; readonly stdout: string };
      if (record.stdout !== `synced ${what}\n`) throw new Error(`a file was not synced: ${said}`);
      box.synced = [new Set([...now, what])];
      box.isGone = 'no';
      if (isDue) box.records.set(record.seq, said);
      return;
    }
    case 'job':
      if (isDue) box.jobs.push((JSON.parse(said) as { readonly job_id: number }).job_id);
      return;
    case 'policy':
      box.policy = [what];
      return;
    case 'secret':
      box.secret = [what];
      return;
    case 'snapshot':
      box.snapshots.set(what, said);
      box.at.set(what, now);
      box.isGone = 'no';
      return;
    case 'restore':
      box.synced = [box.at.get(what) ?? new Set()];
      return;
    case 'destroy':
      box.isGone = 'yes';
  }
}
