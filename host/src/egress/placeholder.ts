/**
 * Placeholders for secrets that come without one: 256 random bits, which say nothing of the value.
 *
 * SDKs check what a key looks like before they send it, so a placeholder may begin as the vendor's keys do.
 */
import { randomBytes } from 'node:crypto';

const prefixPattern = /^[A-Za-z0-9._~-]{0,64}$/;

/**
 * @param prefix such as `sk-ant-api03-`; its characters are those a placeholder may have
 * @throws RangeError where the prefix has others, or more than 64
 */
export function generatePlaceholder(prefix = 'squash-'): string {
  if (!prefixPattern.test(prefix)) {
    throw new RangeError('a placeholder’s prefix is at most 64 letters, digits, ".", "_", "~" and "-"');
  }
  return `${prefix}${randomBytes(32).toString('base64url')}`;
}

/** The public beginning of a value of a known vendor, which its SDKs look for; the default for any other. */
export function placeholderPrefixFor(value: string): string {
  return vendorPrefixes.find((prefix) => value.startsWith(prefix)) ?? 'squash-';
}

/** Longer ones first. Each is printed in its vendor's documents: it tells the vendor, nothing of the key. */
const vendorPrefixes = [
  'sk-ant-api03-',
  'sk-ant-admin01-',
  'sk-ant-oat01-',
  'sk-ant-',
  'sk-proj-',
  'sk-svcacct-',
  'sk-or-v1-',
  'sk_live_',
  'sk_test_',
  'rk_live_',
  'sk-',
  'github_pat_',
  'ghp_',
  'gho_',
  'ghs_',
  'ghu_',
  'glpat-',
  'npm_',
  'pypi-',
  'hf_',
  'xoxb-',
  'xoxp-',
  'xapp-',
  'AIza',
  'gsk_',
  'r8_',
  'dckr_pat_',
] as const;
