/** What happened to a box, of whatever kind, as lines of one stream. */
import type { EgressDecisionInfo } from '@squash/contract/egress';
import type { Event } from '@squash/contract/events';
import type { RefusedPathInfo } from '@squash/contract/paths';
import { isClosed } from '@squash/box/closed';
import { canonical } from '@squash/box/host-paths';
import { type Refusal, refusalOf, type Rules } from '@squash/box/refused-paths';
import type { ProcessInfo } from '@squash/contract/process';
import { apiPath, type Client } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import { listProcesses } from '../client/processes.ts';
import { dataText } from '../commands/events.ts';
import { ownUser } from './daemon.ts';
import { whenEgressAnswers } from './egress-begins.ts';
import type { BoxRecord } from './record.ts';
import { RefusedPaths } from './refused.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { destinationText } from '../output/destination.ts';

export const lineKinds = ['box', 'process', 'limit', 'network', 'path', 'secret', 'approval'] as const;

export interface Line {
  /** RFC 3339, UTC. */
  readonly time: string;
  /**
   * `limit`: what ended for its time, memory or disk. `path`: one that is here was refused to it. `secret`: one was given to a host, or
   * kept from it.
   */
  readonly kind: (typeof lineKinds)[number];
  readonly what: string;
  /** As the API has it: an event, a decision, a process or a path. */
  readonly of: Event | EgressDecisionInfo | ProcessInfo | RefusedPathInfo | typeof more;
}

/** Of paths: what was refused behind those that are kept. */
const more = { truncated: true } as const;

/** Rows of one answer. */
const pageItems = 1_000;
/** There is no stream of processes. */
const lookMs = 500;

/** Reads all that is kept of a box, and what comes behind it. */
export class Story {
  readonly #client: Client;
  readonly #id: string;
  readonly #rules: Rules;
  #event = 0;
  #decision = 0;
  readonly #paths: RefusedPaths;
  /** As they were told, of those that are kept. */
  #told: ReadonlyMap<number, ProcessInfo['state']> = new Map();

  constructor(client: Client, { id, host_paths: rules }: Pick<BoxRecord, 'id' | 'host_paths'>) {
    this.#client = client;
    this.#id = id;
    this.#paths = new RefusedPaths(client, id);
    this.#rules = new Map(Object.entries(rules ?? {}));
  }

  /** In the order of their time. */
  async soFar(): Promise<readonly Line[]> {
    const [{ items }, { decisions }, processes, paths] = await Promise.all([
      this.#client.get<{ readonly items: readonly Event[] }>(this.#eventsPath({})),
      whenEgressAnswers(() =>
        this.#client.get<{ readonly decisions: readonly EgressDecisionInfo[] }>(this.#egressPath({})),
      ),
      listProcesses(this.#client, this.#id),
      this.#pathLines(),
    ]);
    this.#event = Math.max(0, ...items.map(({ id }) => id));
    this.#decision = Math.max(0, ...decisions.map(({ id }) => id));
    const lines = [
      ...items.map(eventLine),
      ...decisions.flatMap(decisionLines),
      ...this.#processLines(processes),
      ...paths,
    ];
    return lines.toSorted((one, other) => (one.time < other.time ? -1 : Number(one.time > other.time)));
  }

  /** Behind `soFar`, until the box is removed. */
  async follow(tell: (line: Line) => void): Promise<void> {
    const over = new AbortController();
    const removed = followEvents<true>(this.#client, {
      what: 'events',
      request: () => ({ path: this.#eventsPath({ after: this.#event, follow: 'true' }) }),
      onEvent: ({ name, id, data }) => {
        this.#event = Number(id ?? this.#event);
        if (name === 'gap') return undefined;
        const event = JSON.parse(data) as Event;
        tell(eventLine(event));
        return event.type === 'sandbox.destroyed' ? true : undefined;
      },
    });
    const decided = followEvents<never>(this.#client, {
      what: 'decisions',
      request: () => ({ path: this.#egressPath({ after: this.#decision, follow: 'true' }) }),
      onEvent: ({ data }) => {
        const decision = JSON.parse(data) as EgressDecisionInfo;
        this.#decision = decision.id;
        for (const line of decisionLines(decision)) tell(line);
        return undefined;
      },
    });
    try {
      await Promise.race([
        removed,
        unlessGone(decided),
        unlessGone(this.#lookAtProcesses(tell, over.signal)),
      ]);
    } finally {
      over.abort();
    }
  }

  async #lookAtProcesses(tell: (line: Line) => void, signal: AbortSignal): Promise<never> {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, lookMs));
      signal.throwIfAborted();
      try {
        const processes = await listProcesses(this.#client, this.#id);
        for (const line of [...(await this.#pathLines()), ...this.#processLines(processes)]) tell(line);
      } catch (failure) {
        // Whether the daemon comes back is found out by those who follow.
        if (!(failure instanceof CliFailure) || failure.exitCode !== exitCodes.unreachable) throw failure;
      }
    }
  }

  /** What of them has not been told. */
  #processLines(processes: readonly ProcessInfo[]): readonly Line[] {
    const before = this.#told;
    this.#told = new Map(processes.map(({ process, state }) => [process, state]));
    return processes.flatMap((info): readonly Line[] => {
      const told = before.get(info.process);
      const began = told === undefined ? [beginLine(info)] : [];
      return info.state === 'ended' && told !== 'ended' ? [...began, endLine(info)] : began;
    });
  }

  /** Those that came since, where one of them is here and the rules refused it. */
  async #pathLines(): Promise<readonly Line[]> {
    const wasTruncated = this.#paths.isTruncated;
    const came = await this.#paths.next();
    const lines = came.flatMap((info): readonly Line[] => {
      const refusal = refusalOf(info, this.#rules);
      if (refusal === undefined) return [];
      return [{ time: info.at, kind: 'path', what: refusalText(refusal), of: info }];
    });
    if (wasTruncated || !this.#paths.isTruncated) return lines;
    const time = came.at(-1)?.at ?? new Date().toISOString();
    return [...lines, { time, kind: 'path', what: 'and more than are kept', of: more }];
  }

  #eventsPath(query: Readonly<Record<string, string | number>>): string {
    return apiPath(['v1', 'events'], { sandbox: this.#id, limit: pageItems, ...query });
  }

  #egressPath(query: Readonly<Record<string, string | number>>): string {
    return apiPath(['v1', 'sandboxes', this.#id, 'egress'], { limit: pageItems, ...query });
  }
}

/** A box that is removed is told of as an event: until that comes there is nothing to say. */
async function unlessGone(following: Promise<never>): Promise<never> {
  try {
    return await following;
  } catch (failure) {
    if (failure instanceof CliFailure && failure.code === 'sandbox_not_found')
      return await new Promise<never>(() => undefined);
    throw failure;
  }
}

function eventLine(event: Event): Line {
  const kind = event.type.startsWith('approval.')
    ? 'approval'
    : event.type === 'sandbox.timed_out'
      ? 'limit'
      : 'box';
  return {
    time: event.at,
    kind,
    what: `${event.type.replace(/^\w+\./, '')} ${dataText(event)}`.trimEnd(),
    of: event,
  };
}

function decisionLines(decision: EgressDecisionInfo): readonly Line[] {
  const { time, verdict, kind, rule, count, secrets } = decision;
  const place = destinationText(decision);
  const times = count > 1 ? ` ×${count}` : '';
  const what = `${verdict}${times} ${kind} ${place} by ${rule}`;
  const secretLines = secrets.map((name): Line => {
    const passed = verdict === 'blocked' ? 'kept from' : 'given to';
    return { time, kind: 'secret', what: `${name} ${passed} ${place}`, of: decision };
  });
  return [{ time, kind: 'network', what, of: decision }, ...secretLines];
}

function beginLine(info: ProcessInfo): Line {
  return { time: info.started_at, kind: 'process', what: `${info.process} began: ${info.command}`, of: info };
}

function refusalText({ asked, intent, place, level, needs }: Refusal): string {
  const where = place === asked ? asked : `${asked} (${place})`;
  const { home } = ownUser();
  // Whether it could be had by some rule.
  const isOpen = level !== 'deny' && level !== 'mask' && !isClosed(place, canonical(home) ?? home);
  return `${intent} ${where} refused: ${level}${isOpen ? `; would need ${needs}` : ''}`;
}

/** Ends that no program chose and nobody asked for. */
const limitEnds: ReadonlySet<string | null> = new Set(['timed_out', 'oom_killed', 'upper_full']);

function endLine(info: ProcessInfo): Line {
  const { process, exit_code: code, reason } = info;
  const isLimit = limitEnds.has(reason);
  const why = reason === null || reason === 'exited' ? '' : ` (${reason})`;
  return {
    time: info.finished_at ?? info.started_at,
    kind: isLimit ? 'limit' : 'process',
    what: `${process} ended with ${code ?? '?'}${why}`,
    of: info,
  };
}
