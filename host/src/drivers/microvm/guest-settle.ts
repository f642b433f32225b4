/** Before a microVM ends: its guest writes out what it holds of its disk in memory, which would be gone with the VMM. */
import type { Duplex } from 'node:stream';
import { GuestClient } from '../../guest/client.ts';
import { answerMsMax } from '../driver.ts';
import { throughToGuest } from './vmm-channel.ts';

/** Writing out what a guest's memory may hold, on a slow disk. */
const settleMsMax = 30_000;

/** One that does not answer, or lies, loses what it has not written; nobody waits for it longer. @param connect to its squash-vmm @param thaw it may stand still */
export async function settleGuest(
  connect: (signal: AbortSignal) => Promise<Duplex>,
  thaw: () => Promise<void>,
): Promise<void> {
  const late = AbortSignal.timeout(settleMsMax);
  const guest = new GuestClient({
    connect: async () => await throughToGuest(await connect(late), late),
    answerDeadlineMs: answerMsMax.vm,
  });
  try {
    await thaw();
    await guest.files.sync('/', late);
  } catch {
    // It is ended as it is: the file system has a journal.
  }
}
