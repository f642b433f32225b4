/**
 * Which commands of a sandbox were ended for want of memory, or of room in its upper: the launcher counts these kills, and a
 * count that rose while a command ran is how it is known.
 */
import type { Driver, SandboxStats } from '../drivers/driver.ts';
import type { SandboxRow } from '#store/rows.ts';
import type { Circumstances } from './outcome.ts';

export type Kills = Pick<SandboxStats, 'oomKills' | 'upperKills'>;

export const noKills: Kills = { oomKills: 0, upperKills: 0 };

export interface Ending {
  /** By SIGKILL, or it says that something was. */
  readonly wasKilled: boolean;
  /** What a microVM’s own kernel has ended. */
  readonly oomKills: number;
}

/** `Sandbox` is one. */
interface Counted {
  readonly world: { readonly driver: Pick<Driver, 'stats'> };
  readonly row: Pick<SandboxRow, 'id'>;
  /** By number. */
  readonly runs: ReadonlyMap<number, unknown>;
}

export class KillCounts {
  #seen: Kills = noKills;
  readonly #upperVictims = new Set<number>();

  /** PID 1 is another, whose counts begin here. */
  begin(kills: Kills): void {
    this.#seen = kills;
  }

  async wanting(
    { world, row, runs }: Counted,
    seq: number,
    { wasKilled, oomKills: told }: Ending,
  ): Promise<Pick<Circumstances, 'oomKilled' | 'upperFull'>> {
    try {
      const { oomKills, upperKills } = await world.driver.stats(row.id);
      const isOom = told > 0 || oomKills > this.#seen.oomKills;
      // The kernel picks one process; the launcher ends all commands, each of which asks here in its turn.
      if (upperKills > this.#seen.upperKills) for (const each of runs.keys()) this.#upperVictims.add(each);
      this.#seen = { oomKills, upperKills };
      return {
        oomKilled: isOom && (wasKilled || runs.size === 1),
        upperFull: wasKilled && this.#upperVictims.has(seq),
      };
    } catch {
      // The sandbox went meanwhile; how the command ended is known without the counters.
      return { oomKilled: false, upperFull: false };
    }
  }

  forget(seq: number): void {
    this.#upperVictims.delete(seq);
  }
}
