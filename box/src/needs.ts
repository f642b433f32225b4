/** What boxes need of this machine as an ordinary user has it, whether it is there, and what mends it. Pure but for `readSetting`. */
import { readFileSync } from 'node:fs';
import type { Capability } from '@squash/contract/capability';
import { namespaceProblem } from '@squash/contract/user-namespaces';

export interface BoxNeed {
  readonly name: 'kernel' | 'user_namespaces' | 'overlay' | 'limits' | 'seccomp';
  /** `weaker`: boxes work, and a limit of theirs does not hold; `missing`: there are none. */
  readonly state: Capability['state'];
  readonly found: string;
  readonly remedy: readonly string[];
}

export interface MachineFacts {
  /** As `uname -r` has it. */
  readonly release: string;
  readonly read: (path: string) => string | undefined;
  readonly launcher: string;
}

/** @param host what was tried here: `squash doctor`'s own rows */
export function boxNeeds(host: readonly Capability[], facts: MachineFacts): readonly BoxNeed[] {
  const row = (name: string): Capability | undefined => host.find((each) => each.name === name);
  return [
    kernelNeed(facts.release),
    namespaceNeed(row, facts),
    overlayNeed(row),
    limitsNeed(row),
    seccompNeed(row),
  ];
}

type Row = (name: string) => Capability | undefined;

const kernelMin = [5, 11] as const;

function kernelNeed(release: string): BoxNeed {
  const [major = 0, minor = 0] = release.split(/\D/, 2).map(Number);
  const isNew = major > kernelMin[0] || (major === kernelMin[0] && minor >= kernelMin[1]);
  return {
    name: 'kernel',
    state: isNew ? 'ok' : 'missing',
    found: `Linux ${release}`,
    remedy: isNew ? [] : [`boot Linux ${kernelMin.join('.')} or later`],
  };
}

function namespaceNeed(row: Row, { read, launcher }: MachineFacts): BoxNeed {
  const tried = row('user_namespaces');
  if (tried?.state === 'ok') return { name: 'user_namespaces', state: 'ok', found: tried.found, remedy: [] };
  const said = row('namespaces')?.found ?? '';
  return { name: 'user_namespaces', state: 'missing', ...namespaceProblem({ read, launcher, said }) };
}

function overlayNeed(row: Row): BoxNeed {
  return triedNeed('overlay', row('kernel_overlay'));
}

function seccompNeed(row: Row): BoxNeed {
  return triedNeed('seccomp', row('seccomp'));
}

/** Not tried where there is no user namespace to try it in. */
function triedNeed(name: BoxNeed['name'], tried: Capability | undefined): BoxNeed {
  if (tried === undefined)
    return { name, state: 'missing', found: 'not tried: it needs a user namespace', remedy: [] };
  const isThere = tried.state === 'ok';
  const remedy = isThere || tried.remedy === null ? [] : [tried.remedy];
  return { name, state: isThere ? 'ok' : 'missing', found: tried.found, remedy };
}

const limitRows = { cgroup_memory: 'memory', cgroup_cpu: 'processors', cgroup_pids: 'processes' } as const;

function limitsNeed(row: Row): BoxNeed {
  const rows = Object.entries(limitRows).map(([name, what]) => ({ what, tried: row(name) }));
  if (rows.every(({ tried }) => tried === undefined)) return triedNeed('limits', undefined);
  const lacking = rows.filter(({ tried }) => tried?.state !== 'ok');
  const remedies = lacking.flatMap(({ tried }) => tried?.remedy ?? []);
  return {
    name: 'limits',
    state: lacking.length === 0 ? 'ok' : 'weaker',
    found:
      lacking.length === 0
        ? 'control groups hold memory, processors and processes of each box'
        : `no control group holds a box’s ${lacking.map(({ what }) => what).join(', ')}`,
    remedy: [...new Set(remedies)],
  };
}

export function readSetting(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // This kernel has no such setting.
    return undefined;
  }
}
