/** How attempts are made from a box, and what they did. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { endOf } from '../../support/cli.ts';
import { waitFor } from '../../support/wait.ts';
import { type BoxAttempt, markOf } from './attempt.ts';
import type { Ground } from './ground.ts';

/** What is asked of one shell that makes attempts: `meanwhile` runs when all are made, and it is still there. */
export async function drive(
  child: ChildProcess,
  begin: () => void,
  meanwhile: () => Promise<void>,
): Promise<string> {
  let text = '';
  let said = '';
  child.stdout?.on('data', (part: Buffer) => {
    text += part.toString('latin1');
  });
  child.stderr?.on('data', (part: Buffer) => {
    said += part.toString('latin1');
  });
  const ended = endOf(child);
  const sees = async (line: RegExp): Promise<void> => {
    const isOver = (): boolean => child.exitCode !== null || line.test(text);
    await waitFor(`${line.source} of the attempts`, isOver, 120_000);
    assert.ok(line.test(text), said);
  };
  await sees(/^ready$/m);
  begin();
  child.stdin?.write('go\n');
  await sees(/^over$/m);
  await meanwhile();
  child.stdin?.end('go\n');
  await ended;
  return text;
}

/** The rules of a box over a ground. */
export function boxWords(ground: Ground, tools: string): readonly string[] {
  const { project, out, reference } = ground;
  const hidden = ['.env', 'keys', 'deep/er/hidden'].map((name) => join(project, name));
  const places = {
    hide: [...hidden, join(out, 'sub/.env'), join(out, 'closed'), join(reference, 'closed')],
    deny: [join(project, 'denied.txt'), join(reference, 'denied')],
    rw: [out],
    ro: [reference, tools, join(out, 'guarded/hooks')],
  };
  return Object.entries(places).flatMap(([name, paths]) => paths.flatMap((path) => [`--${name}`, path]));
}

/** Which of them have changed a file of the host. */
export function harmOf(ground: Ground, tried: readonly BoxAttempt[]): ReadonlySet<string> {
  return new Set(
    tried
      .filter(({ id, changes, keeps }) => {
        const file = changes?.(ground);
        const isChanged =
          file !== undefined && existsSync(file) && readFileSync(file, 'utf8').includes(markOf(id));
        return isChanged || (keeps !== undefined && !existsSync(keeps(ground)));
      })
      .map(({ id }) => id),
  );
}
