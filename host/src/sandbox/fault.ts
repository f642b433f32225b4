/**
 * Named points at which the crash suite kills the daemon. Nothing happens unless `SQUASH_FAULT_POINT` names one:
 * `exec.inserted` dies the first time it is passed, `exec.inserted:3` the third time.
 *
 * The process is killed by SIGKILL from inside, so that no handler, buffer or `finally` gets a say: what is
 * tested is exactly what a power cut of the process leaves. An environment variable of the daemon is out of
 * reach of API clients and sandboxes.
 */
const wanted = /^([a-z.-]+)(?::(\d+))?$/.exec(process.env['SQUASH_FAULT_POINT'] ?? '');
const name = wanted?.[1];
let left = Number(wanted?.[2] ?? 1);

/** Dies here if this is the point that was asked for. */
export function faultPoint(point: FaultPoint): void {
  if (name === undefined || point !== name) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

/** Every point, so that the crash suite can walk them all and none is forgotten. */
export const faultPoints = [
  'create.inserted',
  'create.layers',
  'create.directory',
  'create.started',
  'create.committed',
  'start.committed',
  'exec.inserted',
  'exec.started',
  'exec.output',
  'exec.exited',
  'exec.finished',
  'exec.released',
  'activate.pending',
  'activate.stopped',
  'activate.started',
  'snapshot.pending',
  'snapshot.packed',
  'snapshot.committed',
  'snapshot-remove.linked',
  'snapshot-remove.committed',
  'snapshot-rename.linked',
  'snapshot-rename.committed',
  'snapshot-upload.pending',
  'snapshot-upload.placed',
  'restore.pending',
  'restore.upper',
  'restore.stopped',
  'restore.started',
  'restore.dropped',
  'mount.committed',
  'mount.attached',
  'unmount.detached',
  'unmount.committed',
  'volume.inserted',
  'volume.made',
  'volume.committed',
  'volume-remove.marked',
  'volume-remove.trashed',
  'destroy.marked',
  'destroy.stopped',
  'destroy.trashed',
  'destroy.deleted',
  'fork.inserted',
  'fork.taken',
  'pause.committed',
  'stop.committed',
  'resume.thawed',
] as const;
export type FaultPoint = (typeof faultPoints)[number];
