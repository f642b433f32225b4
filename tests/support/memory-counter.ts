/** A program in a microVM that holds a word of its own and how far it has counted in its memory alone: by them it is seen to go on. */
import { waitFor } from './wait.ts';

export interface Counted {
  readonly word: string;
  readonly count: number;
}

export class MemoryCounter {
  readonly #output: (id: string, cmd: string) => Promise<string>;

  /** @param output of a command in a sandbox */
  constructor(output: (id: string, cmd: string) => Promise<string>) {
    this.#output = output;
  }

  async start(id: string): Promise<void> {
    const program =
      'w=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d " "); i=0; while :; do i=$((i+1)); echo $w $i >/dev/shm/.n; mv /dev/shm/.n /dev/shm/n; sleep 0.2; done';
    await this.#output(id, `nohup sh -c '${program}' >/dev/null 2>&1 &`);
    await this.goesOn(id, 0);
  }

  async in(id: string): Promise<Counted> {
    const [word = '', count = '0'] = (await this.#output(id, 'cat /dev/shm/n 2>/dev/null || :')).split(' ');
    return { word, count: Number(count) };
  }

  async goesOn(id: string, than: number): Promise<void> {
    await waitFor('it to count on', async () => (await this.in(id)).count > than, 30_000);
  }
}
