/** Where the project's other parts lie, for commands that start one of them. */
import { join } from 'node:path';

export function projectPath(path: string): string {
  return join(import.meta.dirname, '../..', path);
}

/** A program that `native/Makefile` makes. */
export function nativePath(name: string): string {
  return projectPath(`native/build/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}/${name}`);
}
