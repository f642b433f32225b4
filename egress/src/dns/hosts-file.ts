/**
 * The host's `/etc/hosts`: the operator's word on names, read again when it changes.
 *
 * Its entries count as resolutions, no more: what a sandbox may reach is decided by policy and by the guard on the
 * address. `localhost` and its kind are never taken from it: they mean the sandbox itself.
 */
import { readFileSync, statSync } from 'node:fs';
import { parseAddress } from '@squash/policy/address/address';
import { hostName } from './name.ts';

/** Block lists of many megabytes are in use; more is a mistake and ignored, so that it can't fill the memory. */
const fileBytesMax = 16_777_216;
/** How soon a change is seen. */
const lookAgainMs = 2_000;

export class HostsFile {
  readonly #path: string;
  #names = new Map<string, string[]>();
  #lookedMs = Number.NEGATIVE_INFINITY;
  #version = '';

  constructor(path: string) {
    this.#path = path;
  }

  /** Addresses as text, in the file's order; `undefined` where the file does not have the name. */
  addresses(host: string, nowMs: number): readonly string[] | undefined {
    if (nowMs - this.#lookedMs >= lookAgainMs) {
      this.#lookedMs = nowMs;
      this.#refresh();
    }
    return this.#names.get(host);
  }

  #refresh(): void {
    try {
      const { mtimeMs, size, ino } = statSync(this.#path);
      const version = `${ino} ${size} ${mtimeMs}`;
      if (version === this.#version) return;
      this.#version = version;
      this.#names = size > fileBytesMax ? new Map() : parseHosts(readFileSync(this.#path, 'latin1'));
    } catch {
      // A host without the file has no entries.
      this.#names = new Map();
      this.#version = '';
    }
  }
}

export function parseHosts(text: string): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...words] = line.replace(/#.*$/, '').trim().split(/\s+/);
    if (parseAddress(address) === undefined) continue;
    for (const word of words) {
      const host = hostName(word.replace(/\.$/, '').split('.'));
      if (host === undefined || isLocalhost(host)) continue;
      const known = names.get(host);
      if (known === undefined) names.set(host, [address]);
      else if (!known.includes(address)) known.push(address);
    }
  }
  return names;
}

/** RFC 6761: the machine itself, which inside a sandbox is the sandbox. */
export function isLocalhost(host: string): boolean {
  return /(^|\.)localhost$|^localhost\d*\.localdomain\d*$|^ip6-(localhost|loopback)$/.test(host);
}
