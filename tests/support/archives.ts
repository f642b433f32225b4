/** Where the archives of packages are for the machine that runs the tests: at public addresses, or at a mirror of its own network. */
import { lookup } from 'node:dns/promises';

export const debian = 'deb.debian.org';
export const npm = 'registry.npmjs.org';

/**
 * The addresses of an archive as ranges, for `SQUASH_EGRESS_ALLOW_CIDRS`: where it is a mirror of the operator's own network, he says so; so
 * does a test for the machine it is on. Empty where the machine does not reach it.
 */
export async function archiveRanges(host: string): Promise<string> {
  try {
    const found = await lookup(host, { all: true });
    return found.map(({ address, family }) => `${address}/${family === 6 ? 128 : 32}`).join(',');
  } catch {
    // The name leads nowhere here.
    return '';
  }
}
