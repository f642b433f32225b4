/**
 * The exec log: one row per command, numbered per sandbox from 1 without gap or repeat.
 *
 * The number is taken and the row written in one transaction, before the guest is asked. A number is never
 * used again, also when its row has left the bounded history: the counter lives in the sandbox's row.
 */
import type { SandboxId } from '@squash/contract/ids';
import { endReasons } from '@squash/contract/exec';
import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite';
import { bug, known } from '@squash/base/bug';
import { blob } from './output.ts';
import {
  type EndReason,
  type ExecEnd,
  type ExecKind,
  type ExecRow,
  type StoredProcess,
  storedProcessSchema,
} from './rows.ts';

export interface NewExec {
  readonly kind: ExecKind;
  readonly cmd: string;
  readonly workdir: string;
  readonly timeoutMs: number | undefined;
  readonly startedMs: number;
  /** Of the running PID 1: part of the name the guest knows the exec by. */
  readonly instance: number;
  readonly process?: StoredProcess | undefined;
  readonly tag?: string | undefined;
  /** All of its standard input, where that is given at the start. */
  readonly stdin?: Uint8Array | undefined;
}

export interface ExecFilter {
  readonly state: 'running' | 'ended' | undefined;
  readonly tag: string | undefined;
}

export interface ExecProgress {
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly storedBytes: number;
}

export interface HistoryLimits {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

type Row = Record<string, SQLOutputValue>;

const columns = `key, seq, exec_id, kind, cmd, workdir, timeout_ms, started_ms, kill_wanted, finished_ms, exit_code,
  signal, timed_out, reason, stdout_bytes, stderr_bytes, stored_bytes, process, tag, stdin_ended`;

export class ExecTable {
  readonly #takeSeq;
  readonly #insert;
  readonly #progress;
  readonly #finish;
  readonly #one;
  readonly #finished;
  readonly #unfinished;
  readonly #jobs;
  readonly #page;
  readonly #tagged;
  readonly #stdin;
  readonly #endStdin;
  readonly #killWanted;
  readonly #usage;
  readonly #prune;

  constructor(database: DatabaseSync) {
    const prepare = (sql: string): StatementSync => database.prepare(sql);
    this.#takeSeq = prepare(
      'UPDATE sandboxes SET next_seq = next_seq + 1, last_active_ms = ? WHERE id = ? RETURNING next_seq - 1 AS seq',
    );
    this.#insert =
      prepare(`INSERT INTO execs (sandbox, seq, exec_id, kind, cmd, workdir, timeout_ms, started_ms,
        process, tag, stdin, stdin_ended)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#progress = prepare(
      'UPDATE execs SET stdout_bytes = ?, stderr_bytes = ?, stored_bytes = ? WHERE key = ?',
    );
    this.#finish =
      prepare(`UPDATE execs SET finished_ms = ?, exit_code = ?, signal = ?, timed_out = ?, reason = ?, stdin = NULL
      WHERE key = ? AND finished_ms IS NULL`);
    this.#one = prepare(`SELECT ${columns} FROM execs WHERE sandbox = ? AND seq = ?`);
    this.#finished = prepare(
      `SELECT ${columns} FROM execs WHERE sandbox = ? AND finished_ms IS NOT NULL AND seq > ? ORDER BY seq LIMIT ?`,
    );
    this.#unfinished = prepare(
      `SELECT ${columns} FROM execs WHERE sandbox = ? AND finished_ms IS NULL ORDER BY seq`,
    );
    this.#jobs = prepare(
      `SELECT ${columns} FROM execs WHERE sandbox = ? AND kind = 'job' AND seq > ? ORDER BY seq LIMIT ?`,
    );
    this.#page = prepare(
      `SELECT ${columns} FROM execs WHERE sandbox = ?1 AND seq > ?2 AND (?3 IS NULL OR tag = ?3)
        AND (?4 IS NULL OR (finished_ms IS NULL) = ?4) ORDER BY seq LIMIT ?5`,
    );
    this.#tagged = prepare(
      `SELECT ${columns} FROM execs WHERE sandbox = ? AND tag = ? ORDER BY finished_ms IS NULL DESC, seq DESC LIMIT 1`,
    );
    this.#stdin = prepare('SELECT stdin FROM execs WHERE key = ?');
    this.#endStdin = prepare('UPDATE execs SET stdin_ended = 1 WHERE key = ?');
    this.#killWanted = prepare('UPDATE execs SET kill_wanted = 1 WHERE key = ?');
    this.#usage = prepare(
      'SELECT seq, stored_bytes FROM execs WHERE sandbox = ? AND finished_ms IS NOT NULL ORDER BY seq DESC',
    );
    this.#prune = prepare('DELETE FROM execs WHERE sandbox = ? AND seq <= ? AND finished_ms IS NOT NULL');
  }

  /** Takes the next number and writes the row. Call inside a transaction. */
  begin(sandbox: SandboxId, exec: NewExec): ExecRow {
    const seq = Number(known(this.#takeSeq.get(exec.startedMs, sandbox), `sandbox "${sandbox}"`)['seq']);
    const execId = `${exec.instance}-${seq}`;
    const { lastInsertRowid } = this.#insert.run(
      sandbox,
      seq,
      execId,
      exec.kind === 'process' ? 'stream' : exec.kind,
      exec.cmd,
      exec.workdir,
      exec.timeoutMs ?? null,
      exec.startedMs,
      exec.process === undefined ? null : JSON.stringify(exec.process),
      exec.tag ?? null,
      exec.stdin ?? null,
      exec.stdin === undefined ? 0 : 1,
    );
    return {
      key: Number(lastInsertRowid),
      seq,
      execId,
      kind: exec.kind,
      cmd: exec.cmd,
      workdir: exec.workdir,
      timeoutMs: exec.timeoutMs,
      startedMs: exec.startedMs,
      killWanted: false,
      stdoutBytes: 0,
      stderrBytes: 0,
      storedBytes: 0,
      process: exec.process,
      tag: exec.tag,
      stdinEnded: exec.stdin !== undefined,
      end: undefined,
    };
  }

  progress(key: number, progress: ExecProgress): void {
    this.#progress.run(progress.stdoutBytes, progress.stderrBytes, progress.storedBytes, key);
  }

  /** The first end counts; a later one changes nothing. */
  finish(key: number, end: ExecEnd): void {
    this.#finish.run(end.finishedMs, end.exitCode, end.signal ?? null, end.timedOut ? 1 : 0, end.reason, key);
  }

  get(sandbox: SandboxId, seq: number): ExecRow | undefined {
    const row = this.#one.get(sandbox, seq);
    return row === undefined ? undefined : execOf(row);
  }

  /** Oldest first, behind number `after`. */
  finished(sandbox: SandboxId, page: { readonly after: number; readonly limit: number }): readonly ExecRow[] {
    return this.#finished.all(sandbox, page.after, page.limit).map(execOf);
  }

  unfinished(sandbox: SandboxId): readonly ExecRow[] {
    return this.#unfinished.all(sandbox).map(execOf);
  }

  jobs(sandbox: SandboxId, page: { readonly after: number; readonly limit: number }): readonly ExecRow[] {
    return this.#jobs.all(sandbox, page.after, page.limit).map(execOf);
  }

  /** Of any kind, oldest first, behind number `after`; each read when it is asked for. */
  *page(
    sandbox: SandboxId,
    { state, tag }: ExecFilter,
    page: { readonly after: number; readonly limit: number },
  ): Generator<ExecRow, void, void> {
    const isRunning = state === undefined ? null : state === 'running' ? 1 : 0;
    const { after, limit } = page;
    for (const row of this.#page.iterate(sandbox, after, tag ?? null, isRunning, limit)) yield execOf(row);
  }

  /** The latest that runs, or else the latest. */
  tagged(sandbox: SandboxId, tag: string): ExecRow | undefined {
    const row = this.#tagged.get(sandbox, tag);
    return row === undefined ? undefined : execOf(row);
  }

  /** What was given as standard input, while the command runs. */
  stdin(key: number): Buffer | undefined {
    const value = this.#stdin.get(key)?.['stdin'];
    return value === null || value === undefined ? undefined : Buffer.from(blob(value));
  }

  endStdin(key: number): void {
    this.#endStdin.run(key);
  }

  wantKill(key: number): void {
    this.#killWanted.run(key);
  }

  /** Drops the oldest finished rows, with their output, until the history is within its limits. */
  prune(sandbox: SandboxId, history: HistoryLimits): void {
    let rows = 0;
    let bytes = 0;
    for (const row of this.#usage.iterate(sandbox)) {
      rows += 1;
      bytes += Number(row['stored_bytes']);
      // The newest one always stays: its client may be about to ask for it.
      if (rows > 1 && (rows > history.rowsMax || bytes > history.bytesMax)) {
        this.#prune.run(sandbox, Number(row['seq']));
        return;
      }
    }
  }
}

function optional(value: SQLOutputValue | undefined): number | undefined {
  return value === null || value === undefined ? undefined : Number(value);
}

function kindOf(value: SQLOutputValue | undefined, isProcess: boolean): ExecKind {
  if (isProcess) return 'process';
  bug(
    value === 'exec' || value === 'stream' || value === 'job',
    `an exec of kind ${String(value)} is in the database`,
  );
  return value;
}

function processOf(value: SQLOutputValue | undefined): StoredProcess | undefined {
  if (value === null || value === undefined) return undefined;
  return storedProcessSchema.parse(JSON.parse(String(value)));
}

function reasonOf(value: SQLOutputValue | undefined): EndReason {
  return endReasons.find((reason) => reason === value) ?? 'lost';
}

function execOf(row: Row): ExecRow {
  const finishedMs = optional(row['finished_ms']);
  const process = processOf(row['process']);
  return {
    key: Number(row['key']),
    seq: Number(row['seq']),
    execId: String(row['exec_id']),
    kind: kindOf(row['kind'], process !== undefined),
    cmd: String(row['cmd']),
    workdir: String(row['workdir']),
    timeoutMs: optional(row['timeout_ms']),
    startedMs: Number(row['started_ms']),
    killWanted: row['kill_wanted'] === 1,
    stdoutBytes: Number(row['stdout_bytes']),
    stderrBytes: Number(row['stderr_bytes']),
    storedBytes: Number(row['stored_bytes']),
    process,
    tag: row['tag'] === null || row['tag'] === undefined ? undefined : String(row['tag']),
    stdinEnded: row['stdin_ended'] === 1,
    end:
      finishedMs === undefined
        ? undefined
        : {
            finishedMs,
            exitCode: Number(row['exit_code']),
            signal: optional(row['signal']),
            timedOut: row['timed_out'] === 1,
            reason: reasonOf(row['reason']),
          },
  };
}
