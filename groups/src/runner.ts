/**
 * One run: a sandbox, fresh or that of the chat's last run, the group's command in it, its output told, its end written down, the sandbox
 * removed or kept (`warm.ts`).
 *
 * Each step is written down before it is taken, and each can be taken again: a daemon that dies anywhere leaves a run that the next
 * one carries on. Between `hasBegun` and the command's start lies the engine's own once-only start.
 */
import { randomBytes } from 'node:crypto';
import { pause } from '@squash/base/pause';
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import { groupChannelPort, groupLimits } from '@squash/contract/group-limits';
import { chatSession, globalMemory } from '@squash/contract/group-mounts';
import { Channel, type ChannelOptions } from './channel.ts';
import { IdleWatch } from './idle.ts';
import { allowed, forbidden } from './network.ts';
import { OutputCutter, type Told } from './output.ts';
import type { CommandAt, CommandEnd, RunSandboxes, SandboxWish } from './ports.ts';
import { profiled } from './profiles.ts';
import { promptOf } from './prompt.ts';
import type { Registry } from './registry.ts';
import type { GroupRow, GroupRows, RunRow } from './rows.ts';
import type { Said } from './said.ts';
import type { Warm } from './warm.ts';

export interface RunnerOptions extends Pick<ChannelOptions, 'acts' | 'views'> {
  readonly rows: GroupRows;
  readonly registry: Registry;
  readonly sandboxes: RunSandboxes;
  readonly warm: Warm;
  readonly said: Said;
  readonly nowMs: () => number;
  readonly log: Log;
  /** Something was stored: a run may begin. */
  readonly changed: () => void;
}

interface End extends Pick<CommandEnd, 'isTimedOut'> {
  readonly exitCode: number | null;
  /** Null: it went well. */
  readonly reason: string | null;
  /** What it needs somebody else has: it waits, and that counts as no try. */
  readonly isAway?: boolean;
  /** Another try would be refused, too. */
  readonly isFinal?: boolean;
}

/** No group is called so, and no folder of one. */
const globalName = 'groups-global';
/** So many of the last bytes of standard error stand in a failure's reason. */
const stderrTold = 200;
/** Of refusals of a sandbox: another one has the folder, or there is no room for one more. */
const awayCodes: readonly string[] = ['volume_in_use', 'host_full'];
/** Somebody has to change something before a run goes better. */
const finalCodes: readonly string[] = ['tier_forbids', 'host_directory_refused', 'invalid_request'];

export class Runner {
  readonly #options: RunnerOptions;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** A row of state `running`, from wherever it stands. Where the signal aborts the next daemon goes on. */
  async carry(run: number, signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    let end: End;
    try {
      end = await this.#run(this.#row(run), signal);
    } catch (error) {
      if (signal.aborted || (error instanceof AppError && error.code === 'shutting_down')) return;
      const isAway = error instanceof AppError && awayCodes.includes(error.code);
      // One that waits says so once, however often it looks.
      if (!isAway || this.#row(run).reason === null) log.warn('group.run', { run, error });
      end = {
        exitCode: null,
        reason: error instanceof AppError ? error.message : 'internal',
        isTimedOut: false,
        isAway,
        isFinal: error instanceof AppError && finalCodes.includes(error.code),
      };
    }
    if (signal.aborted) return;
    this.#finish(run, end);
    if (end.reason === null && (await this.#options.warm.keep(this.#row(run)))) return;
    await this.clear(run);
  }

  /** Removes what is left of a run that is over, or is to be tried again. */
  async clear(run: number): Promise<void> {
    const { rows, sandboxes } = this.#options;
    const { sandbox } = this.#row(run);
    if (sandbox === null) return;
    await sandboxes.remove(sandbox);
    rows.transaction(() => rows.putRun({ ...this.#row(run), sandbox: null, warmUntilMs: null }));
  }

  async #run(row: RunRow, signal: AbortSignal): Promise<End> {
    const { registry, sandboxes } = this.#options;
    const id = row.sandbox ?? '';
    const group = registry.group(row.group);
    const isThere = sandboxes.has(id);
    if (!isThere && row.hasBegun)
      throw new AppError('sandbox_not_found', `The sandbox of run ${row.run} was removed`);
    if (!isThere || (row.isWarm && !row.hasBegun)) await this.#make(id, group, row);
    signal.throwIfAborted();
    using idle = new IdleWatch(this.#timeouts(group).idleS * 1_000);
    using channel = this.#channel(row, idle);
    const over = new AbortController();
    const offering = this.#offer(id, channel, AbortSignal.any([signal, over.signal]));
    try {
      await offering.begun;
      await this.#begin(group, this.#row(row.run));
      idle.begin();
      const stderr = await this.#tell(row.run, group, { signal, idle });
      signal.throwIfAborted();
      // Its sandbox goes with all that still runs in it.
      if (idle.signal.aborted) return { exitCode: null, isTimedOut: true, reason: wasIdle };
      return endOf(sandboxes.end(commandAt(this.#row(row.run))), stderr);
    } finally {
      over.abort();
      await offering.over;
    }
  }

  /** @throws tier_forbids, and whatever refuses a sandbox */
  async #make(id: string, group: GroupRow, row: RunRow): Promise<void> {
    const { key, body, volume: known } = group;
    const { rows, registry, sandboxes, warm } = this.#options;
    const rule = forbidden(registry.tier(body.tier), body);
    if (rule !== undefined) throw new AppError('tier_forbids', rule);
    const volume = known ?? (await sandboxes.volume(`group-${key}`));
    if (known === null) rows.transaction(() => rows.setVolume(body.name, volume));
    const session = row.isIsolated ? null : await this.#session(row.chat, body.session_mb);
    const { hardS: timeoutS } = this.#timeouts(group);
    const places = { volume, session, global: await this.#global(body.tier) };
    const mayRest = !row.isIsolated && registry.tier(body.tier).warm_s > 0;
    const wish = { group: body, run: row.run, timeoutS, allow: allowed(body), mayRest, ...places };
    if (row.isWarm && (await this.#wake(id, wish))) return;
    await warm.withRoom(() => sandboxes.make(id, wish));
  }

  /** False: what was kept is gone, and the run gets a fresh one by the same id. */
  async #wake(id: string, wish: SandboxWish): Promise<boolean> {
    const { rows, sandboxes, log } = this.#options;
    try {
      await sandboxes.wake(id, wish);
      return true;
    } catch (error) {
      log.info('group.warm', { run: wish.run, sandbox: id, error });
    }
    await sandboxes.remove(id);
    rows.transaction(() => rows.putRun({ ...this.#row(wish.run), isWarm: false }));
    return false;
  }

  async #global(tier: string): Promise<SandboxWish['global']> {
    const { registry, sandboxes } = this.#options;
    const { global_memory: mode } = registry.tier(tier);
    if (mode === 'none') return null;
    const wish = { sizeMb: groupLimits.globalMb, isShared: true };
    return { volume: await sandboxes.volume(globalName, wish), mode };
  }

  /** Id of the chat's own volume. Its name is never used again: what a repair has lost a row of is nobody else's. */
  async #session(chat: string, sizeMb: number): Promise<string> {
    const { rows, registry, sandboxes } = this.#options;
    const known = registry.chat(chat).session;
    const name = known ?? `session-${randomBytes(8).toString('hex')}`;
    if (known === null) rows.transaction(() => rows.setSession(chat, name));
    return await sandboxes.volume(name, { sizeMb });
  }

  #timeouts({ body }: GroupRow): { readonly hardS: number; readonly idleS: number } {
    const tier = this.#options.registry.tier(body.tier);
    return { hardS: body.timeout_s ?? tier.timeout_s, idleS: body.idle_timeout_s ?? tier.idle_timeout_s };
  }

  async #begin(of: GroupRow, row: RunRow): Promise<void> {
    const { body } = of;
    const { run, chat, group } = row;
    const { rows, registry, sandboxes } = this.#options;
    rows.transaction(() => rows.putRun({ ...this.#row(run), hasBegun: true }));
    await sandboxes.begin(commandAt(row), {
      ...profiled(body),
      env: {
        HOME: chatSession,
        ...body.env,
        SQUASH_GROUP: group,
        SQUASH_CHAT: chat,
        SQUASH_RUN: `${run}`,
        SQUASH_SESSION: chatSession,
        ...(registry.tier(body.tier).global_memory !== 'none' && { SQUASH_GLOBAL: globalMemory }),
        SQUASH_CHANNEL: `http://caller.squash.internal:${groupChannelPort}`,
      },
      stdin: Buffer.from(promptOf(chat, rows.messagesOf(run))),
      timeoutMs: this.#timeouts(of).hardS * 1_000,
      isWarm: row.isWarm,
      // Of both streams; what is told is the output alone.
      outputBytesMax: 2 * body.output_bytes_max,
    });
  }

  /** @returns the end of what it wrote to stderr */
  async #tell(
    run: number,
    { body }: GroupRow,
    { signal, idle }: { readonly signal: AbortSignal; readonly idle: IdleWatch },
  ): Promise<string> {
    const { sandboxes } = this.#options;
    const { position, outputBytes: told, isTruncated } = this.#row(run);
    const cutter = new OutputCutter({ position, told, isTruncated, bytesMax: body.output_bytes_max });
    let stderr = Buffer.alloc(0);
    const until = AbortSignal.any([signal, idle.signal]);
    for await (const piece of sandboxes.output(commandAt(this.#row(run)), position, until)) {
      if (piece.data.length > 0) idle.active();
      if (piece.stream === 'stderr') stderr = Buffer.concat([stderr, piece.data]).subarray(-stderrTold);
      const was = cutter.isTruncated;
      const messages = cutter.take(piece);
      if (messages.length > 0 || was !== cutter.isTruncated) this.#say(run, messages, cutter);
    }
    if (!signal.aborted) this.#say(run, cutter.rest(), cutter);
    return stderr.toString('utf8');
  }

  /** Messages and the position behind them are one step. */
  #say(run: number, messages: readonly Told[], { position, isTruncated }: OutputCutter): void {
    const { rows, nowMs, said } = this.#options;
    rows.transaction(() => {
      const row = this.#row(run);
      const { group: by, chat } = row;
      for (const { text } of messages) rows.insertOut({ chat, text, by, run, action: null, atMs: nowMs() });
      const outputBytes = messages.reduce((sum, { bytes }) => sum + bytes, row.outputBytes);
      rows.putRun({ ...row, position, outputBytes, isTruncated });
    });
    said.tell();
  }

  /** What did nothing that anybody saw is tried again; everything else would be done twice. */
  #finish(run: number, { exitCode, reason, isTimedOut, isAway = false, isFinal = false }: End): void {
    const { rows, nowMs, log } = this.#options;
    rows.transaction(() => {
      const row = this.#row(run);
      if (isAway && !row.hasBegun) {
        const notBeforeMs = nowMs() + groupLimits.awayMs;
        return rows.putRun({ ...row, state: 'queued', notBeforeMs, exitCode, reason });
      }
      const isAgain =
        reason !== null &&
        !isTimedOut &&
        !isFinal &&
        row.outputBytes === 0 &&
        !row.hasActed &&
        row.attempt < groupLimits.attemptsMax;
      const next = isAgain
        ? {
            state: 'queued' as const,
            attempt: row.attempt + 1,
            hasBegun: false,
            position: 0,
            notBeforeMs: nowMs() + groupLimits.retryMs * 2 ** (row.attempt - 1),
          }
        : { state: reason === null ? ('done' as const) : ('failed' as const), finishedMs: nowMs() };
      rows.putRun({ ...row, ...next, exitCode, reason });
    });
    const { group, state, attempt } = this.#row(run);
    if (isAway) return;
    log.info('group.run', { group, run, state, attempt, reason, exit_code: exitCode });
  }

  #channel({ run, group, depth }: RunRow, idle: IdleWatch): Channel {
    const { acts, views, changed } = this.#options;
    const active = (): void => idle.active();
    return new Channel({ actor: { group, run, depth }, acts, views, changed, active });
  }

  /** As long as the run goes on; a network that is away for a while is asked again. */
  #offer(
    id: string,
    channel: Channel,
    signal: AbortSignal,
  ): { readonly begun: Promise<void>; readonly over: Promise<void> } {
    const { sandboxes, log } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, groupLimits.offerMs);
    const offer = async (): Promise<void> => {
      for await (const event of sandboxes.offer(id, groupChannelPort, signal)) {
        if (event.type === 'offered') resolve();
        else void channel.accept(() => event.take());
      }
    };
    const over = async (): Promise<void> => {
      while (!signal.aborted) {
        await offer().catch((error: unknown) => {
          if (!signal.aborted) log.warn('group.channel', { sandbox: id, error });
        });
        await pause(groupLimits.offerAgainMs, signal);
      }
      clearTimeout(late);
      resolve();
    };
    return { begun: promise, over: over() };
  }

  #row(run: number): RunRow {
    const row = this.#options.rows.run(run);
    if (row === undefined) throw new AppError('internal', `run ${run} is not stored`);
    return row;
  }
}

/** In a sandbox that was kept there are others' commands, which have ended: none of those is taken for this run's. */
function commandAt({ sandbox, isWarm, run }: RunRow): CommandAt {
  return { sandbox: sandbox ?? '', tag: isWarm ? `squash-group-run-${run}` : 'squash-group-run' };
}

const wasIdle = 'neither output nor an action came for "idle_timeout_s" and it was ended';

function endOf({ exitCode, reason, isTimedOut }: CommandEnd, stderr: string): End {
  if (isTimedOut) return { exitCode, isTimedOut, reason: 'it took longer than "timeout_s" and was ended' };
  if (exitCode === 0 && reason === null) return { exitCode, isTimedOut, reason: null };
  const why = reason ?? `exit code ${exitCode}`;
  return { exitCode, isTimedOut, reason: stderr === '' ? why : `${why}: ${stderr.trimEnd()}` };
}
