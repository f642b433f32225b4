/**
 * How many connections previews may hold: all together, so that the API always has room beside them, and for each sandbox,
 * so that the visitors of one leave room for the others'.
 */
import type { Socket } from 'node:net';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';

export class Visitors {
  readonly #of = new Map<Socket, SandboxId>();
  readonly #count = new Map<SandboxId, number>();

  /** Until the socket closes, or visits another sandbox. @throws connection_limit */
  admit(socket: Socket, id: SandboxId): void {
    const before = this.#of.get(socket);
    if (before === id) return;
    const count = this.#count.get(id) ?? 0;
    const isCrowded = count >= limits.previewConnectionsPerSandboxMax;
    if (isCrowded || (before === undefined && this.#of.size >= limits.previewConnectionsMax)) {
      throw new AppError(
        'connection_limit',
        `Too many connections are open to previews${isCrowded ? ` of sandbox "${id}"` : ''}: close some, or try again later`,
      );
    }
    if (before === undefined) socket.once('close', () => this.#leave(socket));
    else this.#leave(socket);
    this.#of.set(socket, id);
    this.#count.set(id, count + 1);
  }

  #leave(socket: Socket): void {
    const id = this.#of.get(socket);
    if (id === undefined) return;
    this.#of.delete(socket);
    const left = (this.#count.get(id) ?? 1) - 1;
    if (left === 0) this.#count.delete(id);
    else this.#count.set(id, left);
  }
}
