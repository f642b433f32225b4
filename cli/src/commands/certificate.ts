/**
 * `squash certificate`: the wildcard certificate for previews, from an authority that speaks ACME. Works on this machine's data
 * directory, and whether or not a daemon runs.
 */
import { readFileSync } from 'node:fs';
import type { CertificateState } from '@squash/certificate/renew';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { askOffline } from '../local-host.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';

const letsEncrypt = 'https://acme-v02.api.letsencrypt.org/directory';
const letsEncryptStaging = 'https://acme-staging-v02.api.letsencrypt.org/directory';
/** What hooks written for other clients leave to them: until all of a domain's name servers have the record. */
const dnsWaitSecondsDefault = 30;

export async function run(call: Call): Promise<number> {
  const wanted = wishes(call);
  const place = await askOffline<{ readonly data_dir: string; readonly preview_domain: string }>('place');
  const order = { ...wanted, dataDir: place.data_dir, domain: place.preview_domain };
  const { renewCertificate } = await import('@squash/certificate/renew');
  const { CertificateFailure } = await import('@squash/certificate/failure');
  using signals = new StopSignals();
  try {
    const note = (text: string) => printNote(`certificate: ${visible(text)}`);
    const state = await renewCertificate(order, { note, stop: signals.stop, leave: signals.leave });
    if (call.json) printJson(state);
    else show(state);
    return exitCodes.ok;
  } catch (failure) {
    if (!(failure instanceof CertificateFailure)) throw failure;
    throw failure.code === 'dns_hook_failed'
      ? new CliFailure('dns_hook_failed', failure.message)
      : new CliFailure('certificate_failed', failure.message);
  }
}

function wishes({ flags }: Call) {
  const hook = flags.text('dns-hook');
  if (hook === undefined || hook === '')
    throw usageFailure('--dns-hook is missing: the program that sets the TXT record');
  if (flags.isSet('staging') && flags.isSet('directory'))
    throw usageFailure('--staging and --directory exclude each other');
  const directoryUrl = flags.text('directory') ?? (flags.isSet('staging') ? letsEncryptStaging : letsEncrypt);
  if (!URL.canParse(directoryUrl) || new URL(directoryUrl).protocol !== 'https:')
    throw usageFailure(`--directory is no https address: "${directoryUrl}"`);
  const email = flags.text('email');
  if (email !== undefined && !/^[^\s@,?]+@[^\s@,?]+$/.test(email))
    throw usageFailure(`--email is no address: "${email}"`);
  const dnsWaitSeconds = flags.integer('dns-wait', { min: 0, max: 3600 }) ?? dnsWaitSecondsDefault;
  return {
    hook,
    directoryUrl,
    email,
    agreesToTerms: flags.isSet('agree-tos'),
    binding: binding(flags.text('eab-kid'), readFlagFile(flags.text('eab-key'), '--eab-key')),
    ca: readFlagFile(flags.text('ca'), '--ca'),
    dnsWaitMs: dnsWaitSeconds * 1000,
    days: flags.integer('days', { min: 1, max: 3650 }),
    force: flags.isSet('force'),
  };
}

function binding(kid: string | undefined, hmacKey: string | undefined) {
  if (kid === undefined && hmacKey === undefined) return undefined;
  if (kid === undefined || hmacKey === undefined) throw usageFailure('--eab-kid and --eab-key go together');
  return { kid, hmacKey: hmacKey.trim() };
}

function readFlagFile(path: string | undefined, flag: string): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read ${flag} "${path}": ${fileProblem(cause)}`);
  }
}

function show(state: CertificateState): void {
  const lasts = `${state.name}, by ${visible(state.issuer)}, ends ${state.not_after}, in ${state.days_left} days`;
  printLine(
    state.renewed
      ? `New certificate for ${lasts}: "${state.path}".`
      : `Nothing to do: the certificate for ${lasts}; it is renewed when less than ${state.renewed_below_days} are left.`,
  );
}

/** The first signal ends what is under way and cleans up; the second one ends the cleaning up. */
class StopSignals implements Disposable {
  readonly #stop = new AbortController();
  readonly #leave = new AbortController();
  readonly stop = this.#stop.signal;
  readonly leave = this.#leave.signal;
  readonly #names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

  constructor() {
    for (const name of this.#names) process.on(name, this.#take);
  }

  readonly #take = (): void => (this.#stop.signal.aborted ? this.#leave : this.#stop).abort();

  [Symbol.dispose](): void {
    for (const name of this.#names) process.off(name, this.#take);
  }
}
