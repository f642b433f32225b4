/**
 * The certificate for previews: two files of the data directory, written by an operator or by `squash certificate`, read by the daemon.
 *
 * Two files can't be exchanged in one step. What `squash certificate` writes as the key's file therefore holds the chain as well, so
 * that it is a pair by itself until the other one is there too.
 */
import { createSecureContext } from 'node:tls';
import { Failure } from '@squash/base/failure';

export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

export const certificateFile = 'preview-cert.pem';
export const keyFile = 'preview-cert.key';
/** A directory: keys of accounts, and what is written before it gets its name. */
export const accountsDirectory = 'preview-acme';
/** A chain of some certificates is 10 KB. */
export const certificateBytesMax = 1_048_576;

/**
 * The certificate that fits the key: that of its own file, else that beside the key.
 * @throws what is wrong with it, never with a part of the key
 */
export function fittingPair(key: string, cert: string | undefined): CertificatePair {
  const beside = key.includes('-----BEGIN CERTIFICATE-----') ? key : undefined;
  const first = cert ?? beside;
  if (first === undefined) throw new Failure('no_certificate', 'there is no such file');
  try {
    return usable({ cert: first, key });
  } catch (error) {
    if (beside === undefined || beside === first) throw error;
    return usable({ cert: beside, key });
  }
}

/** Whether they belong together is found out here, not at the first visitor. */
function usable(pair: CertificatePair): CertificatePair {
  createSecureContext(pair);
  return pair;
}
