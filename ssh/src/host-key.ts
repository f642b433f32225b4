/** The key by which clients know a server again: made at its first use, kept in a file that its owner alone can read. */
import { createHash } from 'node:crypto';
import { mkdirSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import ssh2 from 'ssh2';
import { isErrno } from '@squash/base/errno';

export interface HostKey {
  /** As OpenSSH writes it. */
  readonly private: string;
  /** `ssh-ed25519 AAAA…` */
  readonly public: string;
  /** As `ssh` shows it. */
  readonly fingerprint: string;
}

export function hostKeyAt(path: string): HostKey {
  return readHostKey(path) ?? makeHostKey(path);
}

/** Undefined where there is none yet. */
export function readHostKey(path: string): HostKey | undefined {
  try {
    return parse(readFileSync(path, 'utf8'), path);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function makeHostKey(path: string): HostKey {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, ssh2.utils.generateKeyPairSync('ed25519', { comment: 'squash' }).private, {
      mode: 0o600,
      flush: true,
    });
    // Whoever is first wins: two that are started together must have one key.
    linkSync(temporary, path);
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
  return parse(readFileSync(path, 'utf8'), path);
}

function parse(text: string, path: string): HostKey {
  const parsed = ssh2.utils.parseKey(text);
  if (parsed instanceof Error || Array.isArray(parsed)) throw new Error(`"${path}" is no private key of SSH`);
  const blob = parsed.getPublicSSH();
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  return {
    private: text,
    public: `${parsed.type} ${blob.toString('base64')}`,
    fingerprint: `SHA256:${digest}`,
  };
}
