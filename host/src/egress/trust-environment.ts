/**
 * Where the trust layer puts its files, and the variables that make programs read them: most bring their own list of
 * authorities and do not look at the system's.
 */

/** Paths inside a sandbox. The first is Debian's and Alpine's; the variables carry it everywhere else. */
export const trustPaths = {
  bundle: '/etc/ssl/certs/ca-certificates.crt',
  /** From here `update-ca-certificates` takes it into a bundle that it writes anew. */
  authority: '/usr/local/share/ca-certificates/squash.crt',
  /** What Debian's Java reads by itself. */
  java: '/etc/ssl/certs/java/cacerts',
} as const;

const onHost = { bundle: '/run/squash/ca-certificates.crt', authority: '/run/squash/squash.crt' } as const;

/**
 * Where the root is the host's file system no layer lies on it: the same files, by their path in the layer, in a directory that is
 * the sandbox's own.
 */
export const hostTrust = [
  { path: trustPaths.bundle.slice(1), target: onHost.bundle },
  { path: trustPaths.authority.slice(1), target: onHost.authority },
] as const;

/**
 * Each replaces a program's own list by the bundle, but Node's and Deno's, which add to it. On the host's root they add what this machine
 * trusts as well: whoever has an authority of his own in it has told Node so, by a variable that ours takes the place of.
 */
export function trustVariables(isOnHost: boolean): Readonly<Record<string, string>> {
  const { bundle } = isOnHost ? onHost : trustPaths;
  const authority = isOnHost ? bundle : trustPaths.authority;
  return {
    SSL_CERT_FILE: bundle,
    NODE_EXTRA_CA_CERTS: authority,
    REQUESTS_CA_BUNDLE: bundle,
    CURL_CA_BUNDLE: bundle,
    GIT_SSL_CAINFO: bundle,
    DENO_CERT: authority,
    PIP_CERT: bundle,
    AWS_CA_BUNDLE: bundle,
    CARGO_HTTP_CAINFO: bundle,
    // npm has no list of its own, but a machine's npmrc may name that of the machine: in a layer our bundle lies over it.
    ...(isOnHost && { npm_config_cafile: bundle }),
  };
}
