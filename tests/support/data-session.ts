/** The session with data of docs/sdk.md, in one of its languages: what it prints, the picture it makes, and what its sandbox may not reach. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import { archiveRanges, debian, npm } from './archives.ts';
import { repository } from './base-layer.ts';
import type { TestDaemon } from './daemon.ts';

const elsewhere = `curl -sS --max-time 10 https://${npm}/`;
const languages = {
  ts: `console.log((await box.exec('${elsewhere}')).stdout);\n`,
  python: `    print(box.exec("${elsewhere}").stdout)\n`,
} as const;

/** Why it is not run where `isSingleId`. */
export const noApt = 'single-id mode: apt changes its user, which needs subordinate ids';

export async function isSingleId(daemon: TestDaemon): Promise<boolean> {
  const exec = { argv: ['awk', '{ print $3 }', '/proc/self/uid_map'] };
  const { result } = await daemon.call('POST', '/v1/run', { exec });
  return result.stdout.trim() === '1';
}

/** What its daemon needs: the guard lets both archives be reached, so that only the session's own policy keeps one of them out. */
export async function sessionSettings(): Promise<Readonly<Record<string, string>>> {
  const ranges = await Promise.all([debian, npm].map(archiveRanges));
  return { SQUASH_EGRESS_ALLOW_CIDRS: ranges.filter((range) => range !== '').join(',') };
}

/** @param printedBy runs a program in the folder, and answers what it printed */
export async function checkSession(
  language: keyof typeof languages,
  folder: string,
  printedBy: (program: string) => Promise<string>,
): Promise<void> {
  const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
  const pattern = new RegExp(`^\`\`\`${language} session\n(.*?)^\`\`\`$.*?^\`\`\`text\n(.*?)^\`\`\`$`, 'ms');
  const [, program = '', printed = ''] = pattern.exec(page) ?? [];
  assert.ok(program !== '' && program.split('\n').length <= 31, 'the session has thirty lines at most');
  const said = await printedBy(program + languages[language]);
  assert.equal(said.slice(0, printed.length), printed);
  assert.match(said.slice(printed.length), new RegExp(`does not allow GET / on ${npm}`));
  const [made, shown] = await Promise.all(
    [join(folder, 'sales.png'), join(repository, 'docs/images/sales.png')].map(pictureSize),
  );
  assert.deepEqual(made, shown, 'the picture is as large as the one that the page shows');
}

/** @throws where the file is no PNG with all its points */
async function pictureSize(path: string): Promise<{ readonly width: number; readonly height: number }> {
  const file = await readFile(path);
  assert.equal(file.subarray(0, 8).toString('latin1'), '\x89PNG\r\n\x1A\n');
  const parts = new Map<string, Buffer[]>();
  for (let at = 8; at < file.length; at += 12 + file.readUInt32BE(at)) {
    const name = file.toString('latin1', at + 4, at + 8);
    const data = file.subarray(at + 8, at + 8 + file.readUInt32BE(at));
    parts.set(name, [...(parts.get(name) ?? []), data]);
  }
  assert.equal([...parts.keys()].at(-1), 'IEND');
  const [head = Buffer.alloc(0)] = parts.get('IHDR') ?? [];
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  // 8 bits each of red, green, blue and opacity, and a byte before each row.
  assert.deepEqual([...head.subarray(8)], [8, 6, 0, 0, 0]);
  assert.equal(inflateSync(Buffer.concat(parts.get('IDAT') ?? [])).length, height * (1 + 4 * width));
  return { width, height };
}
