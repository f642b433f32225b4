/** A text that lies where others may have put it: read whole, and no device or pipe that would never end. */
import { constants, openSync, closeSync, fstatSync, readFileSync } from 'node:fs';
import { CliFailure, exitCodes, fileProblem } from './failure.ts';

const bytesMax = 1_048_576;

/** @param code of the refusal */
export function readTextFile(path: string, code: 'settings_unreadable' | 'file_unreadable'): string {
  const refuse = (why: string): never => {
    throw new CliFailure(code, `${path} can't be read: ${why}`, exitCodes.failed);
  };
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (cause) {
    return refuse(fileProblem(cause));
  }
  try {
    const facts = fstatSync(fd);
    if (!facts.isFile()) return refuse('it is no regular file');
    if (facts.size > bytesMax) return refuse(`it has more than ${bytesMax} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(fd));
  } catch (cause) {
    if (cause instanceof CliFailure) throw cause;
    return refuse(cause instanceof TypeError ? 'it is no UTF-8 text' : fileProblem(cause));
  } finally {
    closeSync(fd);
  }
}
