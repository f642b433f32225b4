/** What whoever renews a certificate gets to read: the command line gives it an exit code. */
export class CertificateFailure extends Error {
  readonly code: 'certificate_failed' | 'dns_hook_failed';

  constructor(
    code: 'certificate_failed' | 'dns_hook_failed',
    message: string,
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
    this.name = 'CertificateFailure';
    this.code = code;
  }
}

/** What others say is quoted so far: an authority's answer, a hook's last words. */
const quotedCharsMax = 2_000;

/** The end of a text, where what went wrong stands. */
export function quoted(text: string): string {
  const trimmed = text.trim();
  return trimmed.length <= quotedCharsMax ? trimmed : `… ${trimmed.slice(-quotedCharsMax)}`;
}
