/** A path of the host that sandboxes may write to, as docs/volumes.md tells the operator to make it. */
import { chmodSync, chownSync } from 'node:fs';

/** As `squash-launch enter` makes it: docs/internals/launch.md. */
export const sandboxesRoot = 0x70000001;

export function giveToSandboxes(path: string): void {
  if (process.getuid?.() === 0) chownSync(path, sandboxesRoot, sandboxesRoot);
  else chmodSync(path, 0o777);
}
