/**
 * The installation's certificate authority: `proxy-ca/ca.key` and `proxy-ca/ca.pem`, made on first use.
 *
 * What a newcomer would get wrong: the daemon and the egress process may come here at the same moment. The key is
 * put in place by a hard link, which never replaces, so whoever is second uses the first one's. A certificate that
 * nears its end is issued again **with the same key and name**: leaves of either verify with both, so sandboxes that
 * still hold the old one go on. Only sandboxes trust it; it is never added to the host's own trust.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto';
import { constants } from 'node:fs';
import { link, mkdir, open, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory, writeFileAtomic } from '@squash/base/atomic-file';
import type { Clock } from '@squash/base/clock';
import { Failure } from '@squash/base/failure';
import { authorityCertificate, type Signer } from './certificate.ts';

const dayMs = 86_400_000;
/** Long enough that a sandbox kept for years is never cut off, short enough that a lost key ends. */
const validMs = 5 * 365 * dayMs;
/** A certificate with less left is issued again. Half a year: the longest a sandbox is likely to run on the old one. */
const renewBelowMs = 180 * dayMs;
/** Sandboxes share the host's clock, but not what an operator did to it since. */
const backdateMs = dayMs;
/** A key is about 240 bytes. What is larger was not written here. */
const fileBytesMax = 16_384;

export interface InstallationCa extends Signer {
  /** PEM, one certificate. */
  readonly certificate: string;
}

/**
 * Reads the authority below `directory` (`$SQUASH_DATA/proxy-ca`), or makes it.
 * @throws Failure where the key is not the caller's alone (owner, mode 0600) or not a P-256 key
 */
export async function loadInstallationCa(directory: string, clock: Clock): Promise<InstallationCa> {
  await mkdir(directory, { mode: 0o700, recursive: true });
  const keyPath = join(directory, 'ca.key');
  const key = createPrivateKey((await readOwn(keyPath)) ?? (await makeKey(directory, keyPath)));
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw new Failure(
      'authority_no_key',
      `${JSON.stringify(keyPath)} is not a P-256 key; remove it to have a new one made`,
    );
  }
  const publicKey = createPublicKey(key);
  const certificatePath = join(directory, 'ca.pem');
  const signer = { name: nameOf(publicKey), privateKey: key, publicKey };
  const present = await readOwn(certificatePath);
  const usable = present === undefined ? undefined : readCertificate(present);
  const isOurs = usable?.checkPrivateKey(key) === true && usable.subject.includes(`CN=${signer.name}`);
  if (isOurs && Date.parse(usable.validTo) - clock.wallMs() >= renewBelowMs) {
    return { ...signer, certificate: usable.toString() };
  }
  return issue(signer, certificatePath, clock);
}

/**
 * The name follows from the key: two that issue at the same moment write certificates of one name, and two
 * installations' authorities never look alike to a client.
 */
function nameOf(publicKey: KeyObject): string {
  const digest = createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
  return `Squash sandbox CA ${digest.slice(0, 8)}`;
}

async function issue(signer: Signer, path: string, clock: Clock): Promise<InstallationCa> {
  const nowMs = clock.wallMs();
  const validity = { fromMs: nowMs - backdateMs, untilMs: nowMs + validMs };
  const certificate = authorityCertificate(signer, validity);
  await writeFileAtomic(path, certificate);
  return { ...signer, certificate };
}

/** The key's text: the new one's, or that of whoever was first. */
async function makeKey(directory: string, path: string): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const text = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const temporary = `${path}.${randomBytes(6).toString('hex')}.new`;
  await writeFileAtomic(temporary, text);
  try {
    await link(temporary, path);
    await syncDirectory(directory);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return (await readOwn(path)) ?? readFile(path, 'utf8');
  } finally {
    await unlink(temporary);
  }
}

/** Text of a file that nobody else may read or write; undefined where it is not there. */
async function readOwn(path: string): Promise<string | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const found = await file.stat();
      const isOwn = found.isFile() && found.uid === process.geteuid?.() && (found.mode & 0o077) === 0;
      if (!isOwn || found.size > fileBytesMax) {
        throw new Failure(
          'authority_not_own',
          `${JSON.stringify(path)} must be a file of the daemon's user alone (mode 0600)`,
        );
      }
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code !== 'EACCES') throw error;
    // Of an original that ran as root, most often.
    throw new Failure(
      'authority_not_own',
      `${JSON.stringify(path)} belongs to another user: give it to the daemon's (chown), or remove it to have a new one made`,
      { cause: error },
    );
  }
}

function readCertificate(text: string): X509Certificate | undefined {
  try {
    return new X509Certificate(text);
  } catch {
    // Torn or foreign: it is issued again, the key is what counts.
    return undefined;
  }
}
