/** Prepares every peer once for the run; one that can't run here is kept with the reason. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AbsentSubject } from '../measure/scenario.ts';
import { bubblewrap } from './bubblewrap.ts';
import type { Peer, PeerFactory, PeerLab } from './peer.ts';
import { podman } from './podman.ts';
import { runsc } from './runsc.ts';
import { srt } from './srt.ts';

const factories: Readonly<Record<string, PeerFactory>> = { bubblewrap, podman, runsc, srt };

export interface Peers {
  readonly present: readonly Peer[];
  readonly absent: readonly AbsentSubject[];
}

export async function preparePeers(lab: PeerLab, stack: AsyncDisposableStack): Promise<Peers> {
  const present: Peer[] = [];
  const absent: AbsentSubject[] = [];
  for (const [name, factory] of Object.entries(factories)) {
    const workDir = join(lab.workDir, name);
    await mkdir(workDir, { recursive: true });
    try {
      present.push(await factory({ ...lab, workDir }, stack));
    } catch (error) {
      absent.push({ name, absent: error instanceof Error ? error.message : String(error) });
    }
  }
  return { present, absent };
}
