/**
 * Obtains the wildcard certificate for previews, or another one when it ends soon, and puts it where the daemon looks.
 *
 * Nothing here speaks with a daemon: it may not run yet, because it does not start without a certificate.
 */
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { rfc3339, systemClock } from '@squash/base/clock';
import { pause } from '@squash/base/pause';
import type { CertificatePair } from '@squash/installation/preview-certificate';
import { Authority, type AuthorityOptions, type Challenge } from './authority.ts';
import { callHook } from './dns-hook.ts';
import { CertificateFailure } from './failure.ts';
import { CertificatePlace } from './place.ts';

export interface CertificateOrder extends Pick<AuthorityOptions, 'directoryUrl' | 'ca' | 'binding'> {
  readonly dataDir: string;
  readonly domain: string;
  readonly email: string | undefined;
  readonly agreesToTerms: boolean;
  readonly hook: string;
  /** From the hook's end until the authority is told to look. */
  readonly dnsWaitMs: number;
  /** Less than so many days before its end it is renewed; a third of its lifetime unless given. */
  readonly days: number | undefined;
  readonly force: boolean;
}

export interface Conduct {
  readonly note: (text: string) => void;
  /** Ends what is under way; what was set in DNS is cleaned up. */
  readonly stop: AbortSignal;
  /** Ends the cleaning up as well. */
  readonly leave: AbortSignal;
}

export interface CertificateState {
  readonly renewed: boolean;
  readonly name: string;
  readonly path: string;
  readonly issuer: string;
  readonly not_after: string;
  readonly days_left: number;
  /** Less days than so many left renew it. */
  readonly renewed_below_days: number;
}

const dayMs = 86_400_000;

/** @throws CertificateFailure; the pair from before is then in its place */
export async function renewCertificate(order: CertificateOrder, conduct: Conduct): Promise<CertificateState> {
  using place = new CertificatePlace(order.dataDir);
  const name = `*.${order.domain}`;
  const present = place.pair();
  const state = present && stateOf(present, { name, path: place.path, days: order.days, renewed: false });
  if (state !== undefined && !order.force && state.days_left >= state.renewed_below_days) return state;
  const key = newKey();
  const cert = await obtain({ ...order, name, key }, place, conduct);
  const renewed = stateOf({ cert, key }, { name, path: place.path, days: order.days, renewed: true });
  if (renewed === undefined || renewed.days_left <= 0) {
    throw new CertificateFailure(
      'certificate_failed',
      `what the authority sent is no certificate for ${name} and our key that is valid now`,
    );
  }
  place.keepPair({ cert, key });
  return renewed;
}

/** Undefined where it is no certificate for this name and this key. */
function stateOf(
  { cert, key }: CertificatePair,
  { days, ...told }: Pick<CertificateState, 'name' | 'path' | 'renewed'> & Pick<CertificateOrder, 'days'>,
): CertificateState | undefined {
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
    if (!leaf.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    // Not PEM, or not a certificate.
    return undefined;
  }
  if (leaf.checkHost(told.name.replace('*', '3000-name')) === undefined) return undefined;
  const [from, to] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
  const inDays = (ms: number): number => Math.round((ms / dayMs) * 10) / 10;
  const now = systemClock.wallMs();
  return {
    ...told,
    issuer: leaf.issuer.replaceAll('\n', ', '),
    not_after: rfc3339(to),
    days_left: now < from ? 0 : inDays(to - now),
    renewed_below_days: days ?? inDays((to - from) / 3),
  };
}

async function obtain(
  order: CertificateOrder & { readonly name: string; readonly key: string },
  place: CertificatePlace,
  conduct: Conduct,
): Promise<string> {
  const { directoryUrl, name, key } = order;
  const kept = place.accountKey(directoryUrl);
  const accountKey = kept ?? newKey();
  const authority = new Authority({ ...order, accountKey, signal: conduct.stop });
  if (order.agreesToTerms) {
    await authority.register(order.email);
    if (kept === undefined) {
      place.keepAccountKey(directoryUrl, accountKey);
      conduct.note(`has an account at ${directoryUrl} now`);
    }
  } else {
    if (kept === undefined) throw await disagreed(authority, directoryUrl);
    await authority.login(order.email);
  }
  conduct.note(`orders a certificate for ${name}`);
  const placed = await authority.order(name);
  for (const challenge of await authority.challenges(placed)) await meet(challenge, order, conduct);
  conduct.note('waits for the certificate');
  return await authority.certificate(placed, name, key);
}

async function disagreed(authority: Authority, directoryUrl: string): Promise<CertificateFailure> {
  const terms = await authority.terms();
  return new CertificateFailure(
    'certificate_failed',
    `there is no account at ${directoryUrl} yet: --agree-tos makes one and agrees to its terms${terms === undefined ? '' : ` (${terms})`}`,
  );
}

/** Whatever happens, the hook is called to clean up: it may have set the record and failed behind it. */
async function meet(
  { record, complete }: Challenge,
  { hook, dnsWaitMs }: CertificateOrder,
  { note, stop, leave }: Conduct,
): Promise<void> {
  try {
    note(`has "${hook}" set ${record.name}`);
    await callHook({ program: hook, verb: 'present', record }, stop);
    if (dnsWaitMs > 0) note(`waits ${dnsWaitMs / 1000} s for the name servers`);
    await pause(dnsWaitMs, stop);
    note('has the authority look at it');
    await complete();
  } finally {
    await callHook({ program: hook, verb: 'cleanup', record }, leave).catch((error: unknown) => {
      if (!(error instanceof CertificateFailure)) throw error;
      note(`warning: ${record.name} may still be there: ${error.message}`);
    });
  }
}

/** PEM. ECDSA: every browser knows it, and a handshake costs a tenth of RSA's. */
function newKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}
