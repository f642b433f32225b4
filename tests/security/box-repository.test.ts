/**
 * What a box wrote comes to the host by `squash box apply`, whoever wrote it: nothing runs there, nothing leads out, nothing of the
 * user's is lost. Each attempt is tried with a careless copy of the same box first, where it has to succeed.
 */
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { boxAttempts, type Ground } from './box-attempts.ts';
import { BoxHost } from './box-host.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

describe('a box’s repository comes home', { skip }, () => {
  let host: BoxHost;
  let careless: string;
  const rows = Object.entries(boxAttempts);
  const ground = (top: string, at: number): Ground => ({
    here: join(top, `r${at}`),
    mark: join(host.top, `ran-${at}`),
  });

  before(async () => {
    host = new BoxHost();
    mkdirSync(join(host.top, 'outside'));
    writeFileSync(join(host.top, 'outside/secret'), 'secret\n');
    for (const [at, [, { host: lay }]] of rows.entries()) {
      mkdirSync(ground(host.work, at).here);
      lay?.(ground(host.work, at));
    }
    const untouched = host.copyOfWork();
    const script = rows.map(([, { box }], at) => `(cd r${at} && ${box(ground('', at).mark)}) 2>&1`);
    const hidden = rows.flatMap(([, { hide }], at) =>
      hide === undefined ? [] : ['--hide', join(ground(host.work, at).here, hide)],
    );
    await host.make('static', script.join('\n'), ...hidden);
    careless = await host.careless('static', untouched);
    await host.apply('static');
  });

  after(() => host[Symbol.asyncDispose]());

  for (const [at, [name, { won }]] of rows.entries()) {
    it(name, () => {
      const attempt = (top: string): boolean => {
        rmSync(ground(top, at).mark, { force: true });
        return won(ground(top, at));
      };
      assert.ok(attempt(careless), 'a careless copy withstands it: the attempt proves nothing');
      assert.ok(!attempt(host.work), 'the attacker got what he wanted');
    });
  }
});
