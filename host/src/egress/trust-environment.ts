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

/** Each replaces a program's own list by the bundle, but Node's, which adds to it. */
export const trustEnvironment: Readonly<Record<string, string>> = {
  SSL_CERT_FILE: trustPaths.bundle,
  NODE_EXTRA_CA_CERTS: trustPaths.authority,
  REQUESTS_CA_BUNDLE: trustPaths.bundle,
  CURL_CA_BUNDLE: trustPaths.bundle,
  GIT_SSL_CAINFO: trustPaths.bundle,
  DENO_CERT: trustPaths.authority,
  PIP_CERT: trustPaths.bundle,
  AWS_CA_BUNDLE: trustPaths.bundle,
  CARGO_HTTP_CAINFO: trustPaths.bundle,
};
