/** Ports of sandboxes: connections to them, who may see them, what listens. Everything inside goes through PID 1. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Duplex } from 'node:stream';
import { known } from '@squash/base/bug';
import { AppError } from '@squash/contract/errors';
import type { HostLabel, SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { PortAccess } from '@squash/contract/ports';
import type { Store } from '#store/store.ts';
import type { Guest } from '../guest/guest.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { type ListeningPort, listeningPorts } from './listening.ts';
import type { Residents } from './residents.ts';

/** What a host name or a link is about. */
export interface PortOwner {
  readonly id: SandboxId;
  readonly label: HostLabel;
  readonly createdMs: number;
  readonly owner: string;
}

export interface Ports {
  byLabel(label: HostLabel): PortOwner | undefined;
  /** @throws sandbox_not_found */
  owner(id: SandboxId): PortOwner;
  /** Of a sandbox that is here. */
  access(id: SandboxId, port: number): PortAccess;
  /** @throws sandbox_not_found, disk_full */
  setAccess(id: SandboxId, port: number, access: PortAccess): void;
  /**
   * Bytes to a program that listens on the sandbox's loopback; half-close is kept. Waits for a sandbox that is being started.
   * @throws sandbox_not_found, sandbox_not_ready, port_unreachable, connection_limit
   */
  dial(id: SandboxId, port: number, signal?: AbortSignal): Promise<Duplex>;
  /** Resolves when something listens. @throws as `dial`, when it does not within the time */
  wait(
    id: SandboxId,
    port: number,
    until: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<void>;
  /** What listens, by number. @throws as `dial` */
  listening(id: SandboxId): Promise<readonly ListeningPort[]>;
  /** Bytes of a visitor moved. Cheap: called for each piece. */
  used(id: SandboxId): void;
}

export class LocalPorts implements Ports {
  readonly #store: Store;
  readonly #residents: Residents;

  constructor(store: Store, residents: Residents) {
    this.#store = store;
    this.#residents = residents;
  }

  byLabel(label: HostLabel): PortOwner | undefined {
    const sandbox = this.#residents.byLabel(label);
    return sandbox === undefined ? undefined : ownerOf(sandbox);
  }

  owner(id: SandboxId): PortOwner {
    return ownerOf(this.#residents.find(id));
  }

  access(id: SandboxId, port: number): PortAccess {
    return this.#store.read(() => this.#store.ports.access(id, port));
  }

  setAccess(id: SandboxId, port: number, access: PortAccess): void {
    this.#residents.find(id);
    this.#store.transaction(() => this.#store.ports.set(id, port, access));
  }

  async dial(id: SandboxId, port: number, signal?: AbortSignal): Promise<Duplex> {
    const guest = await this.#guest(id);
    const late = AbortSignal.timeout(limits.previewDialMs);
    const enough = signal === undefined ? late : AbortSignal.any([late, signal]);
    try {
      const stream = await guest.dial(port, enough);
      // A port that breaks off before anybody reads is an end like any other: 'close' follows.
      return stream.on('error', () => undefined);
    } catch (error) {
      signal?.throwIfAborted();
      throw dialError(error, { id, port, isLate: late.aborted });
    }
  }

  async wait(
    id: SandboxId,
    port: number,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const { clock } = this.#residents.find(id).world;
    const endMs = clock.monoMs() + timeoutMs;
    for (;;) {
      try {
        (await this.dial(id, port, signal)).destroy();
        return;
      } catch (error) {
        const isPassing = error instanceof AppError && error.code === 'port_unreachable';
        if (!isPassing || clock.monoMs() >= endMs) throw error;
      }
      await pause(limits.portWaitLookMs, undefined, { signal });
    }
  }

  async listening(id: SandboxId): Promise<readonly ListeningPort[]> {
    return listeningPorts(await this.#guest(id));
  }

  /** Of the sandbox that is ready. @throws sandbox_not_found, sandbox_not_ready */
  async #guest(id: SandboxId): Promise<Guest> {
    const sandbox = this.#residents.find(id);
    let instance = await sandbox.ready();
    while (!sandbox.isAt(instance)) instance = await sandbox.ready();
    return sandbox.guest;
  }

  used(id: SandboxId): void {
    this.#residents.peek(id)?.activity.touch();
  }
}

function ownerOf({ row: { id, hostLabel, createdMs, owner } }: Sandbox): PortOwner {
  return { id, label: known(hostLabel, `the host label of "${id}"`), createdMs, owner };
}

function dialError(
  error: unknown,
  { id, port, isLate }: { readonly id: SandboxId; readonly port: number; readonly isLate: boolean },
): unknown {
  if (isLate) {
    return new AppError(
      'port_unreachable',
      `Port ${port} of sandbox "${id}" did not accept a connection within ${limits.previewDialMs / 1_000} s`,
      { cause: error },
    );
  }
  if (!(error instanceof AppError)) return error;
  if (error.code === 'exec_limit') {
    return new AppError('connection_limit', `Too many ports of sandbox "${id}" are in use: close some`, {
      cause: error,
    });
  }
  if (error.code !== 'port_unreachable') return error;
  return new AppError(
    'port_unreachable',
    `Nothing listens on port ${port} of sandbox "${id}": start a program there, on localhost or on all addresses`,
    { cause: error },
  );
}
