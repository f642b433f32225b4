/** Which executors this machine can run: the package is there, the program is there. Nothing is started for it. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { ExecutorName } from './executors.ts';
import { findContainerProgram } from './places/container.ts';

export interface Availability {
  readonly name: ExecutorName;
  readonly usable: boolean;
  /** Version, or what is missing. */
  readonly detail: string;
}

export function availableExecutors(): readonly Availability[] {
  return [
    ofPackage('quickjs', 'quickjs-wasi'),
    ofPackage('isolated-vm', 'isolated-vm'),
    ofPackage('deno', 'deno'),
    ofPackage('vm2', 'vm2'),
    ofContainer(),
  ];
}

function ofPackage(name: ExecutorName, packageName: string): Availability {
  try {
    const { version } = createRequire(import.meta.url)(`${packageName}/package.json`) as {
      readonly version: string;
    };
    return { name, usable: true, detail: `${packageName} ${version}` };
  } catch {
    return { name, usable: false, detail: `npm install ${packageName}` };
  }
}

function ofContainer(): Availability {
  try {
    const program = findContainerProgram();
    return { name: 'container', usable: existsSync(program), detail: program };
  } catch {
    return { name: 'container', usable: false, detail: 'neither podman nor docker is installed' };
  }
}
