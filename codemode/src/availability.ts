/**
 * Which executors this machine can run: the package is there with its binary and in a version that is taken, the program is there. No engine is
 * started for it.
 */
import './node-version.ts';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { isVm2Recent, vm2VersionMin } from './engines/vm2-version.ts';
import { CodemodeError } from './errors.ts';
import { type ExecutorName, vm2Advice } from './executors.ts';
import { findContainerProgram } from './places/container.ts';
import { denoCommand } from './places/programs.ts';

/** Whether processes of engines have namespaces and a filter of system calls around them here, and if not, why. */
export { type ConfinementState, confinementState } from './places/confinement.ts';

export interface Availability {
  readonly name: ExecutorName;
  readonly usable: boolean;
  /** Version, or what is missing. */
  readonly detail: string;
}

const require = createRequire(import.meta.url);

/**
 * @param daemon version of the Squash daemon that answers, if one does
 * @param unbounded why it can't hold a sandbox to its memory, where it can't: then it makes none with such a limit
 */
export function availableExecutors(daemon: string | undefined, unbounded?: string): readonly Availability[] {
  return [
    found('sandbox', () => {
      if (daemon === undefined) throw new CodemodeError('unavailable', 'no Squash daemon runs: squash serve');
      if (unbounded !== undefined)
        throw new CodemodeError('unavailable', `a sandbox can't be held to its memory: ${unbounded}`);
      return `squashd ${daemon}`;
    }),
    found('quickjs', () => versionOf('quickjs-wasi')),
    found('isolated-vm', () => withBinary(versionOf('isolated-vm'))),
    found('deno', () => {
      denoCommand(64, {});
      return versionOf('deno');
    }),
    found('container', findContainerProgram),
    found('vm2', () => recentVm2(versionOf('vm2', vm2Advice))),
  ];
}

/** @param detail says what there is; throws `unavailable` with what is missing */
function found(name: ExecutorName, detail: () => string): Availability {
  try {
    return { name, usable: true, detail: detail() };
  } catch (failure) {
    if (!(failure instanceof CodemodeError)) throw failure;
    return { name, usable: false, detail: failure.message };
  }
}

function versionOf(packageName: string, advice = `npm install ${packageName}`): string {
  try {
    const { version } = require(`${packageName}/package.json`) as { readonly version: string };
    return `${packageName} ${version}`;
  } catch (cause) {
    throw new CodemodeError('unavailable', advice, { cause });
  }
}

/** The package comes with binaries for some versions of Node; the search for this one's is its own. */
function withBinary(detail: string): string {
  const folder = dirname(require.resolve('isolated-vm/package.json'));
  const build = createRequire(`${folder}/`)('node-gyp-build') as { path(folder: string): string };
  try {
    build.path(folder);
    return detail;
  } catch (cause) {
    throw new CodemodeError('unavailable', `${detail} has no binary for Node ${process.version}`, { cause });
  }
}

function recentVm2(detail: string): string {
  if (isVm2Recent(detail.replace('vm2 ', ''))) return `${detail}, by @squash/codemode/vm2`;
  throw new CodemodeError('unavailable', `${detail} has known ways out: npm install vm2@${vm2VersionMin}`);
}
