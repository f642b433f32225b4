/** `--device`: devices of this machine that a box opens, by path or by what they are. The daemon judges them. */
import { readdirSync, statSync } from 'node:fs';
import { absolutePath, canonical } from '@squash/box/host-paths';
import { usageFailure } from '../failure.ts';

const kinds: Readonly<Record<string, RegExp>> = {
  gpu: /^\/dev\/(?:dri\/renderD\d+|nvidia\d+|nvidiactl|nvidia-uvm(?:-tools)?|kfd|dxg)$/,
  kvm: /^\/dev\/kvm$/,
  fuse: /^\/dev\/fuse$/,
};

/** @returns paths without links @throws usage where there is no such device */
export function readDevices(
  words: readonly string[],
  place: { readonly cwd: string; readonly home: string },
): readonly string[] {
  const paths = words.flatMap((word) => {
    const kind = Object.hasOwn(kinds, word) ? kinds[word] : undefined;
    return kind === undefined ? [devicePath(word, place)] : devicesOf(word, kind);
  });
  return [...new Set(paths)];
}

/** As a policy file has it. */
export function writtenDevice(word: string, place: { readonly cwd: string; readonly home: string }): string {
  return Object.hasOwn(kinds, word) ? word : devicePath(word, place);
}

function devicesOf(name: string, kind: RegExp): readonly string[] {
  const found = ['/dev', '/dev/dri'].flatMap(namesIn).filter((path) => kind.test(path));
  if (found.length === 0) throw usageFailure(`this machine has no device of the kind "${name}"`);
  return found;
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory).map((name) => `${directory}/${name}`);
  } catch {
    // Without /dev/dri there is no render node.
    return [];
  }
}

function devicePath(word: string, place: { readonly cwd: string; readonly home: string }): string {
  const path = canonical(absolutePath(word, place));
  const stats = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false });
  if (path === undefined || stats === undefined)
    throw usageFailure(`there is no device "${word}"; by name: ${Object.keys(kinds).join(', ')}`);
  if (!stats.isCharacterDevice() && !stats.isBlockDevice()) throw usageFailure(`"${word}" is no device`);
  return path;
}
