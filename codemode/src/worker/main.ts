/**
 * The process that holds an engine. It does what the frames of its host say: one run at a time, each in a realm of its own that
 * is booted before the run comes. It has no other business, and nothing that could tempt the code in it.
 */
import { type Engine, EngineError } from '../engines/engine.ts';
import type { EngineLimits, EngineName, HostFrame } from '../protocol/frames.ts';
import { protocolVersion } from '../protocol/framing.ts';
import { type Channel, openChannel } from './channel.ts';
import { Session } from './session.ts';

/** Only the one that is asked for is loaded: the others need not be installed. */
async function loadEngine(name: EngineName): Promise<Engine> {
  switch (name) {
    case 'quickjs':
      return await (await import('../engines/quickjs.ts')).createEngine();
    case 'isolated-vm':
      return (await import('../engines/isolated-vm.ts')).createEngine();
    case 'node-vm':
      return (await import('../engines/node-vm.ts')).createEngine();
    case 'vm2':
      return (await import('../engines/vm2.ts')).createEngine();
  }
}

class Worker {
  readonly #channel: Channel;
  #engine: Engine | undefined;
  #limits: EngineLimits = { memoryMb: 0, runs: 1, countsCpu: false };
  #session: Session | undefined;
  #runs = 0;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  async serve(): Promise<void> {
    process.on('unhandledRejection', (reason) => {
      this.#session?.unhandled(reasonOf(reason));
    });
    // Told at once: leaving the loop closes the channel.
    for await (const frame of this.#channel.frames) await this.#handle(frame).catch(fail);
  }

  async #handle(frame: HostFrame): Promise<void> {
    switch (frame.t) {
      case 'hello':
        this.#limits = frame.limits;
        this.#engine = await loadEngine(frame.engine);
        await this.#boot();
        return;
      case 'run':
        this.#session?.start(frame);
        return;
      case 'tool':
        this.#session?.settle(frame.call, frame.ok, frame.text);
        return;
      case 'suspend':
        this.#session?.suspend();
        return;
      case 'resume':
        await this.#resume(frame);
        return;
    }
  }

  async #boot(): Promise<void> {
    const session = this.#newSession();
    if (this.#engine !== undefined) session.attach(await this.#engine.boot(session, this.#limits));
    this.#channel.send({ t: 'ready', v: protocolVersion, engine: this.#engine?.label ?? '' });
  }

  async #resume({ nonce, snapshot, cpuMs }: Extract<HostFrame, { readonly t: 'resume' }>): Promise<void> {
    const restore = this.#engine?.restore;
    if (restore === undefined) {
      throw new EngineError({ kind: 'crash', name: 'Error', message: 'this engine can not restore a run' });
    }
    const session = this.#newSession();
    const bytes = Buffer.from(snapshot, 'base64');
    session.attach(await restore(session, this.#limits, { bytes, cpuMs }));
    session.resume(nonce);
  }

  #newSession(): Session {
    const session = new Session((frame) => this.#channel.send(frame));
    this.#session = session;
    this.#runs += 1;
    const runs = this.#runs;
    void session.ended.then(() => (runs < this.#limits.runs ? this.#boot() : undefined)).catch(fail);
    return session;
  }
}

/** The reason is the code's: looking at it may throw, and only a string is taken. */
function reasonOf(reason: unknown): string {
  try {
    const message: unknown =
      typeof reason === 'object' && reason !== null && 'message' in reason ? reason.message : reason;
    return typeof message === 'string' ? message : 'a value';
  } catch {
    return 'a value';
  }
}

const channel = openChannel(process.argv[2] ?? 'fd3');

function fail(failure: unknown): void {
  try {
    channel.send({
      t: 'fatal',
      message: failure instanceof Error ? failure.message.slice(0, 2000) : 'the worker failed',
    });
  } finally {
    end();
  }
}

/** Not `process.exit()`: with isolated-vm that has been seen to hang and to crash after the heap was full. */
function end(): void {
  // As a container's first process it could not end itself by a signal.
  if ('Deno' in globalThis || process.pid === 1) process.exit(0);
  process.kill(process.pid, 'SIGKILL');
}

process.on('uncaughtException', fail);
new Worker(channel).serve().then(end, fail);
