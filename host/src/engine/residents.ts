/** The sandboxes that are here, by id: how every noun of the engine finds the one it is asked about. */
import { AppError } from '@squash/contract/errors';
import type { HostLabel, SandboxId } from '@squash/contract/ids';
import type { Sandbox } from '../sandbox/sandbox.ts';

export class Residents {
  readonly #sandboxes = new Map<SandboxId, Sandbox>();
  readonly #byLabel = new Map<HostLabel, Sandbox>();

  get count(): number {
    return this.#sandboxes.size;
  }

  all(): readonly Sandbox[] {
    return [...this.#sandboxes.values()];
  }

  peek(id: SandboxId): Sandbox | undefined {
    return this.#sandboxes.get(id);
  }

  /** @throws sandbox_not_found */
  find(id: SandboxId): Sandbox {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox === undefined) throw new AppError('sandbox_not_found', `Cannot find sandbox "${id}"`);
    return sandbox;
  }

  byLabel(label: HostLabel): Sandbox | undefined {
    return this.#byLabel.get(label);
  }

  add(sandbox: Sandbox): void {
    const { id, hostLabel } = sandbox.row;
    this.#sandboxes.set(id, sandbox);
    if (hostLabel !== null) this.#byLabel.set(hostLabel, sandbox);
  }

  /** Nothing where another one has its id by now. */
  remove(sandbox: Sandbox): void {
    const { id, hostLabel } = sandbox.row;
    if (this.#sandboxes.get(id) === sandbox) this.#sandboxes.delete(id);
    if (hostLabel !== null && this.#byLabel.get(hostLabel) === sandbox) this.#byLabel.delete(hostLabel);
  }

  /** Runs an operation in its turn. One whose sandbox is being removed finds it gone. @throws sandbox_not_found */
  async operate<T>(id: SandboxId, operation: (sandbox: Sandbox) => Promise<T>): Promise<T> {
    const sandbox = this.find(id);
    const checkStays = (): void => {
      if (sandbox.state.phase === 'destroying' || sandbox.removal.signal.aborted) throw removed(id);
    };
    checkStays();
    return sandbox.mailbox.post(async () => {
      checkStays();
      return await whileItStays(sandbox, operation(sandbox));
    });
  }
}

/** A removal gives up what goes on; it is then no matter what that has said. @throws sandbox_not_found */
export async function whileItStays<T>(sandbox: Sandbox, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw sandbox.removal.signal.aborted ? removed(sandbox.row.id, cause) : cause;
  }
}

function removed(id: SandboxId, cause?: unknown): AppError {
  return new AppError('sandbox_not_found', `Cannot change sandbox "${id}": it is being removed`, { cause });
}
