/** `squash open`: a port of a sandbox in the browser of whoever sits here, by a link with a token. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { linkOf, notServed } from './url.ts';

export async function run(call: Call): Promise<number> {
  const answer = await linkOf(call);
  const url = answer.url ?? notServed();
  const isOpened = !call.flags.isSet('print') && (await openBrowser(url));
  if (call.json) printJson({ ...answer, opened: isOpened });
  else printLine(url);
  return exitCodes.ok;
}

/** Whether a browser was told. Where there is no desktop the address alone is of use. */
async function openBrowser(url: string): Promise<boolean> {
  const { DISPLAY: display, WAYLAND_DISPLAY: wayland } = process.env;
  if (process.platform !== 'darwin' && !display && !wayland) return false;
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(program, [url], { stdio: 'ignore', detached: true });
  try {
    await once(child, 'spawn');
  } catch {
    // It is not installed.
    return false;
  }
  child.unref();
  return true;
}
