/** `--publish` of boxes: ports of this machine that lead into a box for as long as its command line runs. */
import type { Client } from '../client/client.ts';
import type { Forward } from '../client/forward.ts';
import type { Call } from '../command.ts';
import { printNote } from '../output/print.ts';

/** Programs of this machine reach it, nobody of the network does. */
const loopback = '127.0.0.1';

interface Target {
  readonly client: Client;
  readonly id: string;
}

export class Published implements Disposable {
  readonly #forwards: readonly Forward[];
  readonly #reach: (target: Target) => void;

  private constructor(forwards: readonly Forward[], reach: (target: Target) => void) {
    this.#forwards = forwards;
    this.#reach = reach;
  }

  /** Before there is a box: a port that is taken is told, and nothing runs. @throws usage, port_taken */
  static async listen(words: readonly string[]): Promise<Published> {
    const { promise, resolve } = Promise.withResolvers<Target>();
    using stack = new DisposableStack();
    const forwards: Forward[] = [];
    if (words.length > 0) {
      const { listenForward, parseForward } = await import('../client/forward.ts');
      for (const wish of words.map(parseForward))
        forwards.push(stack.use(await listenForward(wish, loopback, promise)));
    }
    stack.move();
    return new Published(forwards, resolve);
  }

  /** Connections go to it from now on. */
  reach({ json }: Pick<Call, 'json'>, target: Target): void {
    this.#reach(target);
    if (json) return;
    for (const { address, local, port } of this.#forwards)
      printNote(`squash: ${address}:${local} is port ${port} of the box ${target.id}`);
  }

  [Symbol.dispose](): void {
    for (const forward of this.#forwards) forward[Symbol.dispose]();
  }
}

/** Of a box that is there. @throws usage, port_taken */
export async function publish(call: Pick<Call, 'flags' | 'json'>, target: Target): Promise<Published> {
  const published = await Published.listen(call.flags.list('publish'));
  published.reach(call, target);
  return published;
}
