/** Schedules of groups: prompts that come to chats by cron, at intervals, or once. */
import { type Connection, type Signal } from './connection.ts';
import type { Operations, Schedule, ScheduleCreate, ScheduleRun } from './records.gen.ts';

export type ScheduleFilter = Operations['schedule.list']['query'] & Signal;
export type ScheduleRunsFilter = Operations['schedule.runs']['query'] & Signal;

export class Schedules {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `schedule.create` @throws Conflict, NotFound, BadRequest where no time is to come */
  async create({ signal, ...body }: ScheduleCreate & Signal): Promise<Schedule> {
    return await this.#connection.call('schedule.create', { body, signal });
  }

  /** `schedule.list`: by chat and name. */
  async list({ signal, ...query }: ScheduleFilter = {}): Promise<readonly Schedule[]> {
    return (await this.#connection.call('schedule.list', { query, signal })).items;
  }

  /** `schedule.get` @throws NotFound */
  async get(chat: string, schedule: string, options: Signal = {}): Promise<Schedule> {
    return await this.#connection.call('schedule.get', { path: { chat, schedule }, ...options });
  }

  /** `schedule.update`: what passes meanwhile is not missed. */
  async pause(chat: string, schedule: string, { signal }: Signal = {}): Promise<Schedule> {
    const body = { paused: true };
    return await this.#connection.call('schedule.update', { path: { chat, schedule }, body, signal });
  }

  /** `schedule.update`: it goes on with the next time that comes. @throws BadRequest where none does */
  async resume(chat: string, schedule: string, { signal }: Signal = {}): Promise<Schedule> {
    const body = { paused: false };
    return await this.#connection.call('schedule.update', { path: { chat, schedule }, body, signal });
  }

  /** `schedule.remove`: with its history; a run that it has started goes on. */
  async remove(chat: string, schedule: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('schedule.remove', { path: { chat, schedule }, ...options });
  }

  /** `schedule.runs`: what became of its times, newest first. */
  async runs(
    chat: string,
    schedule: string,
    { signal, ...query }: ScheduleRunsFilter = {},
  ): Promise<readonly ScheduleRun[]> {
    return (await this.#connection.call('schedule.runs', { path: { chat, schedule }, query, signal })).items;
  }
}
