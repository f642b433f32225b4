/**
 * The names of one sandbox that have a virtual address (198.18.0.0/15), both ways.
 *
 * A row is written before the address is handed out: whatever a program was told still means the same name after
 * the process was restarted. What a newcomer would get wrong: an address is given to another name only when the table is
 * full, and then the one unused for longest, and never one of the last ten minutes: programs remember addresses for
 * longer than any TTL. Names that policy refuses have a table's part of their own, so that a flood of them pushes out no
 * name that works.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Address } from '@squash/policy/address/address';
import { egressLimits as limits } from '../limits.ts';

/** 198.18.0.0–198.18.0.255 belong to no name; .1 is the nameserver. */
const base = 0xc612_0000;
const reserved = 256;
const count = 1 << 17;

/** 198.18.0.0/15, whether or not a name has it. */
export function isVirtual(address: Address): boolean {
  return address.length === 4 && address[0] === 198 && ((address[1] ?? 0) & 0xfe) === 18;
}

function addressOf(number: number): Address {
  const value = base + number;
  return Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

function numberOf(address: Address): number {
  return (((address[1] ?? 0) & 1) << 16) | ((address[2] ?? 0) << 8) | (address[3] ?? 0);
}

interface Entry {
  readonly number: number;
  readonly host: string;
  isRefused: boolean;
  usedMs: number;
}

/** The database's side of every sandbox's table: prepared once. */
export class NameRows {
  readonly #select: StatementSync;
  readonly #put: StatementSync;
  readonly #used: StatementSync;
  readonly #clear: StatementSync;
  readonly #sandboxes: StatementSync;

  constructor(database: DatabaseSync) {
    this.#select = database.prepare(
      'SELECT number, host, is_refused, used_ms FROM names WHERE sandbox = ? ORDER BY used_ms',
    );
    this.#put = database.prepare('INSERT OR REPLACE INTO names VALUES (?, ?, ?, ?, ?)');
    this.#used = database.prepare('UPDATE names SET used_ms = ? WHERE sandbox = ? AND number = ?');
    this.#clear = database.prepare('DELETE FROM names WHERE sandbox = ?');
    this.#sandboxes = database.prepare('SELECT DISTINCT sandbox FROM names');
  }

  read(sandbox: string): Entry[] {
    return this.#select.all(sandbox).map((row) => ({
      number: Number(row['number']),
      host: String(row['host']),
      isRefused: row['is_refused'] === 1,
      usedMs: Number(row['used_ms']),
    }));
  }

  write(sandbox: string, { number, host, isRefused, usedMs }: Entry): void {
    this.#put.run(sandbox, number, host, isRefused ? 1 : 0, usedMs);
  }

  writeUsed(sandbox: string, { number, usedMs }: Entry): void {
    this.#used.run(usedMs, sandbox, number);
  }

  forget(sandbox: string): void {
    this.#clear.run(sandbox);
  }

  /** Sandboxes that have rows. */
  sandboxes(): string[] {
    return this.#sandboxes.all().map((row) => String(row['sandbox']));
  }
}

export class VirtualAddresses {
  readonly #rows: NameRows;
  readonly #sandbox: string;
  /** Least recently used first, in both. */
  readonly #allowed = new Map<string, Entry>();
  readonly #refused = new Map<string, Entry>();
  readonly #byNumber = new Map<number, Entry>();
  #next = reserved;

  constructor(rows: NameRows, sandbox: string) {
    this.#rows = rows;
    this.#sandbox = sandbox;
    for (const entry of rows.read(sandbox)) {
      this.#part(entry.isRefused).set(entry.host, entry);
      this.#byNumber.set(entry.number, entry);
      this.#next = Math.max(this.#next, entry.number + 1);
    }
  }

  /** `undefined` where the table is full of names that are in use. */
  addressFor(host: string, isRefused: boolean, nowMs: number): Address | undefined {
    const known = this.#allowed.get(host) ?? this.#refused.get(host);
    if (known === undefined) return this.#add(host, isRefused, nowMs);
    if (known.isRefused !== isRefused) this.#move(known, isRefused);
    this.#use(known, nowMs);
    return addressOf(known.number);
  }

  /** The name that a virtual address means; `undefined` for one that was never given out. */
  hostOf(address: Address, nowMs?: number): string | undefined {
    const entry = this.#byNumber.get(numberOf(address));
    if (entry !== undefined && nowMs !== undefined) this.#use(entry, nowMs);
    return entry?.host;
  }

  #part(isRefused: boolean): Map<string, Entry> {
    return isRefused ? this.#refused : this.#allowed;
  }

  #use(entry: Entry, nowMs: number): void {
    const part = this.#part(entry.isRefused);
    part.delete(entry.host);
    part.set(entry.host, entry);
    // The order matters for minutes: a write for each query would be work for nothing.
    if (nowMs - entry.usedMs > limits.nameKeepMs / 4) {
      entry.usedMs = nowMs;
      try {
        this.#rows.writeUsed(this.#sandbox, entry);
      } catch {
        // A full disk: the next process takes the name for older than it is, no more.
      }
    }
  }

  /** The policy has changed its mind about a name: it keeps its address. */
  #move(entry: Entry, isRefused: boolean): void {
    this.#part(entry.isRefused).delete(entry.host);
    entry.isRefused = isRefused;
    this.#part(isRefused).set(entry.host, entry);
    try {
      this.#rows.write(this.#sandbox, entry);
    } catch {
      // A full disk: which part of the table it counts for is told again with its next query.
    }
  }

  #add(host: string, isRefused: boolean, nowMs: number): Address | undefined {
    const part = this.#part(isRefused);
    const most = isRefused ? limits.sandboxRefusedNamesMax : limits.sandboxNamesMax;
    const [oldest] = part.size < most ? [] : part.values();
    if (oldest !== undefined && nowMs - oldest.usedMs < limits.nameKeepMs) return undefined;
    const entry: Entry = { number: oldest?.number ?? this.#unusedNumber(), host, isRefused, usedMs: nowMs };
    this.#rows.write(this.#sandbox, entry);
    // Only now: where the disk is full the old name keeps its address.
    if (oldest !== undefined) part.delete(oldest.host);
    part.set(host, entry);
    this.#byNumber.set(entry.number, entry);
    return addressOf(entry.number);
  }

  /** Both parts together are far smaller than the range, so there is one; the walk goes on where it ended. */
  #unusedNumber(): number {
    for (;;) {
      if (this.#next >= count) this.#next = reserved;
      const number = this.#next;
      this.#next += 1;
      if (!this.#byNumber.has(number)) return number;
    }
  }
}
