/** Names that are too long, directories that are deep, and many of both: what is asked for still comes home. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxHost } from './box-host.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

const count = process.env['TEST_LONG'] === '1' ? 100_000 : 10_000;

describe('a box that wrote more than anybody reads', { skip }, () => {
  let host: BoxHost;
  before(() => {
    host = new BoxHost();
  });
  after(() => host[Symbol.asyncDispose]());

  it('long names, deep directories and thousands of files hold up nobody', async () => {
    const deep = `perl -e 'for (1..1200) { mkdir "dd"; chdir "dd" or last } open F, ">", "f"'`;
    const long = `perl -e '$n = "n" x 255; mkdir $n; chdir $n; mkdir $n; chdir $n; open F, ">", "f"'`;
    const many = `mkdir many; cd many; seq -f f%g ${count} | xargs touch`;
    await host.make('huge', `mkdir huge; cd huge; echo x > last; (${deep}); (${long}); ${many}`);
    const outcomes = await host.apply('huge', 'huge/last', 'huge/dd', `huge/${'n'.repeat(255)}`);
    assert.equal(readFileSync(join(host.work, 'huge/last'), 'utf8'), 'x\n');
    assert.ok(
      [...outcomes].every(([name, each]) => each === 'applied' || (each === 'refused' && name.length > 500)),
    );
    assert.ok([...outcomes.values()].includes('refused'));
    await host.remove('huge');
  });
});
