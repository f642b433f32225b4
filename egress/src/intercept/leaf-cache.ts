/**
 * A server certificate per intercepted host, signed when first asked for and kept as a ready TLS context.
 *
 * What a newcomer would get wrong: all leaves share one key, made when the process starts and never written down. A key
 * of its own for each host would protect nothing (whoever reads one from this process reads all) and would cost a
 * key generation per host. Leaves live for days, not years, and one that nears its end is made again.
 */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '@squash/base/clock';
import { leafCertificate, type Signer } from '@squash/installation/certificate';

const hourMs = 3_600_000;
const validMs = 72 * hourMs;
/** Made again when less is left: longer than any connection is expected to want to resume. */
const renewBelowMs = 24 * hourMs;
/** For clocks that were set back since the process started. */
const backdateMs = 24 * hourMs;
/** Hosts that are intercepted at all are few (they are named in secrets and rules); a wildcard can be many. */
const leavesMax = 512;

interface Leaf {
  readonly context: SecureContext;
  readonly untilMs: number;
}

export class LeafCache {
  readonly #signer: Signer;
  readonly #clock: Clock;
  readonly #publicKey: KeyObject;
  readonly #key: string;
  /** Least recently used first. */
  readonly #leaves = new Map<string, Leaf>();

  constructor(signer: Signer, clock: Clock) {
    this.#signer = signer;
    this.#clock = clock;
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#publicKey = pair.publicKey;
    this.#key = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  }

  /** A context that presents a certificate for this host name (A-labels, lower case) or IP address. */
  contextFor(host: string): SecureContext {
    const nowMs = this.#clock.wallMs();
    const found = this.#leaves.get(host);
    this.#leaves.delete(host);
    const leaf = found !== undefined && isFresh(found, nowMs) ? found : this.#make(host, nowMs);
    this.#leaves.set(host, leaf);
    for (const oldest of this.#leaves.keys()) {
      if (this.#leaves.size <= leavesMax) break;
      this.#leaves.delete(oldest);
    }
    return leaf.context;
  }

  get size(): number {
    return this.#leaves.size;
  }

  #make(host: string, nowMs: number): Leaf {
    const untilMs = nowMs + validMs;
    const validity = { fromMs: nowMs - backdateMs, untilMs };
    const cert = leafCertificate(this.#signer, { host, publicKey: this.#publicKey, validity });
    return { context: createSecureContext({ key: this.#key, cert, minVersion: 'TLSv1.2' }), untilMs };
  }
}

/** A clock that was set back makes a leaf look valid for too long: it is not trusted either. */
function isFresh(leaf: Leaf, nowMs: number): boolean {
  const leftMs = leaf.untilMs - nowMs;
  return leftMs >= renewBelowMs && leftMs <= validMs;
}
