/** What the launcher is told of a start, an upper and a mount, and the fields that carry it. */
import type { FieldName } from '@squash/contract/guest/frames';
import type { SandboxId } from '@squash/contract/ids';

export type FieldValue = readonly [FieldName, number | string | Uint8Array];

export interface LaunchStart {
  readonly name: SandboxId;
  readonly instance: number;
  readonly hostname: string;
  readonly lowers: readonly string[];
  readonly upper: LaunchUpper;
  /** As `createUpper` just before, in one request. Otherwise a missing upper fails the start. */
  readonly makesUpper: boolean;
  readonly mounts: readonly LaunchMount[];
  /** The root is made of these: there are no lowers. The numbers are the host's. */
  readonly hostRoot?:
    | {
        readonly uid: number;
        readonly gid: number;
        readonly places: readonly LaunchMount[];
        readonly tracesPaths?: boolean;
        readonly allowsNesting?: boolean;
      }
    | undefined;
  /** PID 1 is squash-vmm, and mounts may be of the kind `file`: regular files of the data directory, for reading. */
  readonly vmm?: boolean;
  /** Of the host, that a VMM gets besides. With `tun` it has a tap whose packets go where those of a program go. */
  readonly vmmDevices?: readonly ('tun' | 'kvm')[];
  readonly memoryBytesMax: number;
  readonly cpuMilli: number;
  readonly pidsMax: number;
  readonly shmBytesMax: number;
  readonly openFilesMax: number;
  readonly hosts: string;
  readonly resolvConf: string;
}

/** As `struct mount_wish` of the launcher has it. */
export interface LaunchMount {
  readonly mode: 'ro' | 'rw';
  /** `host`, how the volume is kept, a kind of `HostPlace`, or of a VMM `file`. */
  readonly kind: string;
  /** Of a host's directory: device and inode. */
  readonly identity: string;
  /** Of a host's directory an absolute path, of a volume and a file one below the data directory. */
  readonly source: string;
  readonly target: string;
  /** Of a host's directory: names in it that are seen empty. */
  readonly hidden?: readonly string[];
  /** Of a place in a root of layers: where the sandbox's own part of it lies. */
  readonly own?: string;
}

/** Where an upper lies, how it is kept and what it may hold. */
export interface LaunchUpper {
  readonly path: string;
  readonly kind: string;
  readonly bytesMax: number;
  readonly inodesMax: number;
}

export function startFields(start: LaunchStart): FieldValue[] {
  const { hostRoot } = start;
  return [
    ['name', start.name],
    ['instance', start.instance],
    ['hostname', start.hostname],
    ...start.lowers.map((lower): FieldValue => ['lower', lower]),
    ...upperFields(start.upper),
    // Left out where it is not meant: a launcher from before this field can still restart its sandboxes.
    ...(start.makesUpper ? [['makesUpper', 1] as const] : []),
    ['memoryBytesMax', start.memoryBytesMax],
    ['cpuMilli', start.cpuMilli],
    ['pidsMax', start.pidsMax],
    ['shmBytesMax', start.shmBytesMax],
    ['openFilesMax', start.openFilesMax],
    ['hosts', start.hosts],
    ['resolvConf', start.resolvConf],
    ...(hostRoot === undefined ? [] : [['uid', hostRoot.uid] as const, ['gid', hostRoot.gid] as const]),
    ...(hostRoot?.tracesPaths === true ? [['tracesPaths', 1] as const] : []),
    ...(hostRoot?.allowsNesting === true ? [['allowsNesting', 1] as const] : []),
    ...(start.vmm === true ? [['vmm', 1] as const] : []),
    ...(start.vmmDevices ?? []).map((device): FieldValue => ['vmmDevice', device]),
    ...[...(hostRoot?.places ?? []), ...start.mounts].map(mountField),
  ];
}

export function upperFields(upper: LaunchUpper): FieldValue[] {
  return [
    ['upper', upper.path],
    ['upperKind', upper.kind],
    ['bytesMax', upper.bytesMax],
    ['inodesMax', upper.inodesMax],
  ];
}

export function mountField({
  mode,
  kind,
  identity,
  source,
  target,
  hidden = [],
  own,
}: LaunchMount): FieldValue {
  const from = source.startsWith('/') ? source : `/${source}`;
  return ['mount', [mode, kind, identity, from, target, ...(own === undefined ? hidden : [own])].join('\n')];
}
