/** The row of a sandbox that is to be. */
import { AppError } from '@squash/contract/errors';
import type { SandboxImage } from '@squash/contract/image';
import type { CreateRequest, Warning } from '@squash/contract/sandbox';
import type { SandboxRow } from '#store/rows.ts';
import type { Driver } from '../drivers/driver.ts';
import { backendFor } from './backend.ts';
import { hostRootHere } from './host-root.ts';
import type { World } from './world.ts';

const bytesPerMb = 1_048_576;

/** Everything of the row that needs no look at the layers. */
export function draftRow(
  world: World,
  request: CreateRequest,
  host = hostRootHere(world, request.native?.hostRoot, request.native?.onTimeout),
): Omit<SandboxRow, 'layers' | 'trust'> {
  const nowMs = world.clock.wallMs();
  const limits = {
    ...world.fixedLimits,
    cpuMilli: Math.max(1, Math.round(request.cpu * 1_000)),
    memoryBytesMax: request.memoryMb * bytesPerMb,
    pidsMax: request.native?.processesMax ?? world.fixedLimits.pidsMax,
  };
  const backend = backendFor(world, request);
  const upperKind = world.driver.upperKindFor(backend);
  const unenforced = world.driver.warnings({ limits, upperKind, backend });
  const broken = world.requiresLimits
    ? unenforced
    : unenforced.filter(({ code }) => request.native?.mustHold.includes(code));
  if (broken.length > 0) {
    const reasons = broken.map((warning) => warning.message).join('; ');
    throw new AppError('limits_unenforceable', `Cannot create sandbox "${request.id}": ${reasons}`);
  }
  const { image, warnings } = imageHere(request.native?.image, world.driver);
  return {
    id: request.id,
    hostLabel: null,
    owner: request.owner,
    task: request.task,
    createdMs: nowMs,
    lastActiveMs: nowMs,
    cpu: request.cpu,
    memoryMb: request.memoryMb,
    maxLifetimeS: request.maxLifetimeS,
    allowNet: request.allowNet === undefined ? null : [...request.allowNet],
    policy: request.policy ?? null,
    secrets: request.secrets,
    ownSecrets: Object.keys(request.ownSecrets),
    upstream: request.upstream ?? null,
    warnings: [...request.warnings, ...warnings, ...host.warnings],
    backend,
    hostRoot: host.hostRoot,
    limits,
    upperKind,
    upperGeneration: 1,
    upperMadeMs: nowMs,
    activeSnapshot: null,
    phase: 'creating',
    failure: null,
    instance: 0,
    nextSeq: 1,
    pending: null,
    revision: 1,
    name: request.native?.name ?? null,
    labels: { ...request.native?.labels },
    env: { ...request.native?.env },
    image,
    lifetimeFromMs: nowMs,
    idleTimeoutS: request.native?.idleTimeoutS ?? 0,
    onTimeout: request.native?.onTimeout ?? 'destroy',
    rest: null,
    mounts: [...(request.mounts ?? [])],
  };
}

/** A row of a sandbox whose image is known by what was saved of it, and by no request. */
export function withSavedImage<Row extends Pick<SandboxRow, 'image' | 'warnings'>>(
  row: Row,
  saved: SandboxImage | undefined,
  driver: Driver,
): Row {
  if (saved === undefined || row.image !== null) return row;
  const { image, warnings } = imageHere(saved, driver);
  return { ...row, image, warnings: [...row.warnings, ...warnings] };
}

/** Where there is one id, an image's own user is nobody whom a command could run as; all files are root's. */
function imageHere(
  image: SandboxImage | undefined,
  { hasOneId }: Pick<Driver, 'hasOneId'>,
): { readonly image: SandboxImage | null; readonly warnings: readonly Warning[] } {
  if (image === undefined) return { image: null, warnings: [] };
  if (!hasOneId || (image.uid === 0 && image.gid === 0)) return { image, warnings: [] };
  const message = `commands run as root and not as "${image.user}": this host gives sandboxes a single id (see squash doctor)`;
  return { image: { ...image, uid: 0, gid: 0, home: '/root' }, warnings: [{ code: 'image_user', message }] };
}
