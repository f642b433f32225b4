/**
 * Reads what upstreams publish beside their archives: which files there are, and the SHA-256 of one of them. Each has a form of
 * its own: lines of `sha256sum` and of BSD's `sha256`, a file with nothing but the sum, Alpine's YAML, JSON of go.dev and GitHub.
 */
import { Failure } from '@squash/base/failure';
import { shown } from './download.ts';

const hex = '[0-9a-f]{64}';

/** @param mirror the word of `SQUASH_MIRROR_…` @throws where anybody on the way could have written the sums */
export function requireTrusted(address: string, mirror: string): void {
  const { protocol, hostname } = new URL(address);
  if (protocol === 'https:' || /^(?:127(?:\.\d+){3}|localhost|\[::1\])$/.test(hostname)) return;
  throw new Failure(
    'not_https',
    `"${shown(address)}": a checksum over http proves nothing; set SQUASH_MIRROR_${mirror} to an address with https://, or put the sum into a preset of your own ("checksum": {"kind": "fixed"})`,
  );
}

/** @throws when the text holds no sum of this file */
export function publishedSum(text: string, file: string, where: string): string {
  const sum = sumInJson(text, file) ?? sumInLines(text, file) ?? sumInBlocks(text, file) ?? sumAlone(text);
  if (sum === undefined) throw new Failure('checksum_missing', `${where}: holds no SHA-256 of "${file}"`);
  return sum.toLowerCase();
}

function sumInLines(text: string, file: string): string | undefined {
  for (const line of text.split('\n')) {
    const gnu = new RegExp(`^(${hex})\\s+\\*?(?:\\./)?(\\S+)\\s*$`, 'i').exec(line);
    if (gnu?.[2] === file) return gnu[1];
    const bsd = new RegExp(`^SHA256 \\((.+)\\) = (${hex})\\s*$`, 'i').exec(line);
    if (bsd?.[1] === file) return bsd[2];
  }
  return undefined;
}

/** `- file: NAME … sha256: SUM` of Alpine's releases. */
function sumInBlocks(text: string, file: string): string | undefined {
  for (const block of text.split(/^-\s*$/m)) {
    if (/^\s+file:\s*(\S+)\s*$/m.exec(block)?.[1] !== file) continue;
    return new RegExp(`^\\s+sha256:\\s*(${hex})\\s*$`, 'im').exec(block)?.[1];
  }
  return undefined;
}

/** The object that names the file has its sum: `sha256`, or GitHub's `digest`. */
function sumInJson(text: string, file: string): string | undefined {
  const start = text.trimStart()[0];
  if (start !== '{' && start !== '[') return undefined;
  let found: string | undefined;
  const isSum = new RegExp(`^(?:sha256:)?(${hex})$`, 'i');
  try {
    JSON.parse(text, (_key, value: unknown) => {
      if (found !== undefined || typeof value !== 'object' || value === null) return value;
      const fields = value as Readonly<Record<string, unknown>>;
      if (fields['filename'] !== file && fields['name'] !== file) return value;
      const sum = fields['sha256'] ?? fields['digest'];
      if (typeof sum === 'string') found = isSum.exec(sum)?.[1];
      return value;
    });
  } catch {
    // No JSON after all.
    return undefined;
  }
  return found;
}

function sumAlone(text: string): string | undefined {
  return new RegExp(`^(${hex})$`, 'i').exec(text.trim())?.[1];
}

export interface FileTemplate {
  /** With `{version}`, `{patch}`, `{branch}` and `{arch}`. */
  readonly file: string;
  readonly version: string;
  readonly arch: string;
}

export interface FoundFile {
  readonly file: string;
  /** Whole. */
  readonly version: string;
}

/** The newest file of the template that the page names. */
export function newestFile(page: string, template: FileTemplate): FoundFile | undefined {
  const start = template.version === 'newest' ? String.raw`\d+(?:\.\d+)*` : escaped(template.version);
  const hasPatch = template.file.includes('{version}{patch}');
  const version = `(?<version>${start}${hasPatch ? String.raw`(?:\.\d+)*` : ''})`;
  const pattern = template.file
    .split(/(\{version\}(?:\{patch\})?|\{arch\})/)
    .map((piece) => {
      if (piece.startsWith('{version}')) return version;
      return escaped(piece === '{arch}' ? template.arch : piece);
    })
    .join('');
  const found = [...page.matchAll(new RegExp(`(?<![\\w.+-])${pattern}(?![\\w+-])`, 'g'))].map((match) => ({
    file: match[0],
    version: match.groups?.['version'] ?? template.version,
  }));
  return found.sort((one, other) => compareVersions(other.version, one.version))[0];
}

function compareVersions(one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true });
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
