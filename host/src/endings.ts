/** How the daemon ends, for its keeper and its service manager. */
import type { Log } from '@squash/base/log';

/** Exit codes of sysexits.h: a service manager does not start again what can't work. */
export const exitConfig = 78;
export const exitSoftware = 70;
/** Ephemeral mode has kept what it could not save. */
export const exitUnsaved = 74;
/** What `squash-launch keep` starts again: everything that the namespaces hang on is made anew. */
export const exitAgain = 75;
/** The same, after it has ended the launcher, which lives and does not answer. */
export const exitHung = 76;

/** The exit code. */
export function sayStop(log: Log, signal: string): number {
  log.info('daemon.stopping', { signal });
  return 0;
}

/**
 * The launcher has ended or hangs, so this daemon's namespaces can make no sandbox any more. State is made to survive a death at
 * any point, and what open requests wait for is gone.
 */
export function leave(log: Log, code: number): never {
  const event = code === exitHung ? 'daemon.launcher_hung' : 'daemon.launcher_gone';
  log.error(event, { remedy: 'the daemon starts again with another launcher' });
  process.exit(code);
}
