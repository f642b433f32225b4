/**
 * The audit: lines of JSON in files of bounded size and number, which only the daemon's user may read.
 *
 * A line is written with one `write` before its request is answered, and not synced: it survives the daemon's death, a power cut
 * may take the last second. Files lie apart from `log/`, where the egress process may write, too.
 *
 * What a newcomer would get wrong: a disk that is full must not stop the API, which is what makes room again. Lines that
 * can't be written are counted, told in health and in the log, and their number stands in the next line that can be.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { AuditEntry, AuditList } from '@squash/contract/audit';
import type { Problem } from '@squash/contract/daemon';
import { limits } from '@squash/contract/limits';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Metric } from '@squash/base/metric';
import { TokenBucket } from '@squash/base/token-bucket';
import { currentName, fileName, olderNumbers } from './file-names.ts';
import { type PageAsked, readAudit } from './read-audit.ts';

/** Below the audit's own directory: agents, who ask without end, push no client's line out. */
export const agentsAudit = 'agents';

type Line = Omit<AuditEntry, 'at' | 'dropped' | 'lost'>;

export interface AuditLogOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly fileBytesMax?: number;
  /** What agents ask, in files of its own: its problems and numbers are told with this one's. */
  readonly agents?: AuditLog;
}

export class AuditLog implements Disposable {
  readonly directory: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #fileBytesMax: number;
  readonly #agents: AuditLog | undefined;
  readonly #refusals: TokenBucket;
  #file: { readonly descriptor: number; bytes: number } | undefined;
  /** Half a line stands at the end of the file: the disk became full in it. */
  #isTorn = false;
  #dropped = 0;
  #lost = 0;
  #droppedTotal = 0;
  #lostTotal = 0;
  #failure: string | undefined;
  #againMs = Number.NEGATIVE_INFINITY;
  #toldMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor({ directory, clock, log, fileBytesMax, agents }: AuditLogOptions) {
    this.directory = directory;
    this.#clock = clock;
    this.#log = log;
    this.#fileBytesMax = fileBytesMax ?? limits.auditFileBytesMax;
    this.#agents = agents;
    const rate = { perS: limits.auditRefusedPerS, burst: limits.auditRefusedBurst };
    this.#refusals = new TokenBucket(rate, clock.monoMs());
    this.#attempt(() => this.#open());
  }

  write(line: Line): void {
    if (this.#isClosed) return;
    const nowMs = this.#clock.monoMs();
    if (this.#failure !== undefined && nowMs < this.#againMs) {
      this.#lose();
      return;
    }
    const text = this.#textOf(line);
    if (!this.#attempt(() => this.#append(text))) {
      this.#lose();
      this.#againMs = nowMs + limits.auditAgainMs;
      return;
    }
    this.#dropped = 0;
    this.#lost = 0;
  }

  writeBounded(line: Line): void {
    if (this.#refusals.take(this.#clock.monoMs())) {
      this.write(line);
      return;
    }
    this.#dropped += 1;
    this.#droppedTotal += 1;
  }

  /** @throws invalid_request where the cursor is none */
  read({ of, ...page }: PageAsked & { readonly of?: 'requests' | 'agents' | undefined }): Promise<AuditList> {
    return readAudit(of === 'agents' ? join(this.directory, agentsAudit) : this.directory, page);
  }

  problems(): readonly Problem[] {
    const others = this.#agents?.problems() ?? [];
    if (this.#failure === undefined) return others;
    const message = `the audit can not be written (${this.#failure}), requests are served all the same: ${this.#lost} have no line; mend the file system of "${this.directory}"`;
    return [{ code: 'audit_failing', message }, ...others];
  }

  metrics(): readonly Metric[] {
    const ofBoth = (count: (log: AuditLog) => number): number =>
      count(this) + (this.#agents === undefined ? 0 : count(this.#agents));
    const counter = (name: string, help: string, value: number): Metric => ({
      name,
      help,
      type: 'counter',
      samples: [{ labels: {}, value }],
    });
    return [
      counter(
        'squash_audit_lost_total',
        'Requests whose audit line could not be written',
        ofBoth((each) => each.#lostTotal),
      ),
      counter(
        'squash_audit_dropped_total',
        'Refusals at the gate without an audit line, because there were too many',
        ofBoth((each) => each.#droppedTotal),
      ),
    ];
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#close();
  }

  #textOf(line: Line): string {
    const entry: AuditEntry = {
      at: rfc3339(this.#clock.wallMs()),
      ...line,
      ...(this.#dropped > 0 && { dropped: this.#dropped }),
      ...(this.#lost > 0 && { lost: this.#lost }),
    };
    // Names are the client's own: what a terminal would obey, or a reader take for a line's end, is escaped.
    return `${JSON.stringify(entry).replace(/[^\x20-\x7e]/g, escaped)}\n`;
  }

  /** Whether it did. What a file system says is kept for health. */
  #attempt(step: () => void): boolean {
    try {
      step();
      this.#failure = undefined;
      return true;
    } catch (error) {
      this.#failure = errorText(error);
      return false;
    }
  }

  #append(text: string): void {
    if (this.#file === undefined) this.#open();
    if (this.#file !== undefined && this.#file.bytes >= this.#fileBytesMax) this.#rotate();
    const file = this.#file;
    if (file === undefined) return;
    const bytes = Buffer.from(this.#isTorn ? `\n${text}` : text, 'latin1');
    const written = writeSync(file.descriptor, bytes);
    file.bytes += written;
    this.#isTorn = written < bytes.length;
    if (this.#isTorn) throw new Failure('audit_torn', 'no space left on device');
  }

  #open(): void {
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    const path = join(this.directory, currentName);
    const descriptor = openSync(path, 'a', 0o600);
    const { size } = statSync(path);
    this.#file = { descriptor, bytes: size };
    // The last daemon may have died, or lost its disk, within a line: an empty one is none.
    this.#isTorn = size > 0;
  }

  /** The current file gets the next number; of the others only the newest stay. */
  #rotate(): void {
    this.#close();
    const older = olderNumbers(readdirSync(this.directory));
    const next = (older.at(-1) ?? 0) + 1;
    renameSync(join(this.directory, currentName), join(this.directory, fileName(next)));
    for (const number of [...older, next].slice(0, -(limits.auditFilesMax - 1))) {
      rmSync(join(this.directory, fileName(number)), { force: true });
    }
    this.#open();
  }

  #close(): void {
    if (this.#file !== undefined) closeSync(this.#file.descriptor);
    this.#file = undefined;
  }

  #lose(): void {
    this.#lost += 1;
    this.#lostTotal += 1;
    const nowMs = this.#clock.monoMs();
    if (nowMs - this.#toldMs < limits.auditToldMs) return;
    this.#toldMs = nowMs;
    this.#log.error('audit.failing', { failure: this.#failure, lost: this.#lost });
  }
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
