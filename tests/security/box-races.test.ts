/**
 * `squash box apply` while the box goes on and while the host's user works in the same directory: a file comes whole, and what the user
 * has written stays.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { BoxHost } from './box-host.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

/** Its writer counts at the beginning, then at the end, then at the beginning. */
function isOneMoment(text: string): boolean {
  const [first, last] = [Number(text.slice(0, 8)), Number(text.slice(-8))];
  return text.startsWith('........') || Number.isNaN(last) || first === last || first === last + 1;
}

/** A busy machine is slow to begin what nobody waits for. */
const begun = 'until test -e /tmp/begun; do sleep 0.1; done';

describe('a box’s changes come home while others work', { skip }, () => {
  let host: BoxHost;
  before(() => {
    host = new BoxHost();
    mkdirSync(join(host.top, 'outside'));
  });
  after(() => host[Symbol.asyncDispose]());

  const path = (name: string): string => join(host.work, name);
  const put = (name: string, text: string): void => {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), text);
  };
  const text = (name: string): string => readFileSync(path(name), 'utf8');

  it('a directory that is swapped for a link all the time leads nowhere', async () => {
    put('swap/d/f', 'f\n');
    const loop = 'while :; do mv -T dir d; mv -T d dir; mv -T lnk d; mv -T d lnk; done';
    const script = `cd swap; rm -r d; mkdir dir; echo x > dir/planted; ln -s ../../outside lnk; touch /tmp/begun; ${loop}`;
    await host.start('swaps', script);
    await host.printed('exec', 'swaps', '--', 'sh', '-c', begun);
    let applied = 0;
    for (let at = 0; at < 6; at++) {
      const { stdout, stderr } = await host.box('apply', 'swaps', '--json', 'swap');
      if (stdout.length > 0) applied += 1;
      // Who looks between two renames may find nothing there.
      else assert.match(stderr, /"not_found".*has written nothing/);
      assert.deepEqual(readdirSync(join(host.top, 'outside')), []);
      for (const name of readdirSync(path('swap')))
        assert.ok(!lstatSync(path(`swap/${name}`)).isSymbolicLink());
    }
    assert.ok(applied > 0);
    await host.remove('swaps');
  });

  it('a file that is written meanwhile comes whole or not at all', async () => {
    put('torn/f', '.'.repeat(2_097_152));
    const write = 'seek(F, 0, 0); syswrite(F, $t); seek(F, 2097144, 0); syswrite(F, $t)';
    await host.start(
      'tears',
      `perl -e 'open(F, "+<", "torn/f"); open(B, ">", "/tmp/begun"); for ($i = 0;; $i++) { $t = sprintf("%08d", $i); ${write} }'`,
    );
    await host.printed('exec', 'tears', '--', 'sh', '-c', begun);
    let torn = 0;
    for (let at = 0; at < 6; at++) {
      torn += isOneMoment(await host.printed('exec', 'tears', '--', 'cat', 'torn/f')) ? 0 : 1;
      await host.apply('tears', '--overwrite', 'torn');
      assert.ok(isOneMoment(text('torn/f')));
    }
    assert.ok(torn > 0, 'a careless copy is whole, too');
    await host.remove('tears');
  });

  it('what the user writes in the same moment stays', async () => {
    const names = Array.from({ length: 600 }, (_, at) => `edits/f${at}`);
    for (const name of names) put(name, 'old\n');
    await host.make('edits', 'for f in edits/*; do echo of the box > $f; done');
    const applying = host.apply('edits', 'edits');
    let isOver = false;
    void applying.finally(() => (isOver = true));
    // From where it begins, and from where it ends.
    const order = names.map((name, at) => (at % 2 === 0 ? name : (names[names.length - at] ?? name)));
    while (!isOver && names.every((name) => text(name) === 'old\n')) await delay(1);
    for (const [at, name] of order.entries()) {
      if (at % 3 === 0) {
        writeFileSync(path(`${name}.new`), 'of the user\n');
        renameSync(path(`${name}.new`), path(name));
      } else writeFileSync(path(name), 'of the user\n');
      if (!isOver && at % 4 === 0) await delay(1);
    }
    const outcomes = await applying;
    for (const name of order)
      assert.equal(text(name), 'of the user\n', `${name}: ${outcomes.get(`/${name}`)}`);
    assert.ok([...outcomes.values()].includes('conflict'), 'nothing met');
    await host.remove('edits');
  });

  it('what the user has changed below a directory that the box removed, replaced or writes to stays', async () => {
    for (const name of ['tree/deep/down/f', 'other/new/f', 'swapped/f', 'log', 'named']) put(name, 'old\n');
    const log = openSync(path('log'), 'a');
    await host.make(
      'removes',
      'rm -rf tree other swapped; echo box > swapped; echo box > log; echo box > named',
    );
    appendFileSync(path('tree/deep/down/f'), 'of the user\n');
    put('other/new/g', 'of the user\n');
    writeFileSync(path('swapped/f'), 'of the user\n');
    renameSync(path('named'), path('named-else'));
    symlinkSync('named-else', path('named'));
    const outcomes = await host.apply('removes');
    for (const name of ['/tree', '/other', '/swapped', '/log', '/named'])
      assert.equal(outcomes.get(name), 'conflict', name);
    writeSync(log, 'of the user\n');
    closeSync(log);
    for (const name of ['tree/deep/down/f', 'other/new/g', 'swapped/f', 'log'])
      assert.match(text(name), /of the user\n$/, name);
    assert.match((await host.box('apply', 'removes')).stderr, /--overwrite/);
    const forced = await host.apply('removes', '--overwrite');
    assert.deepEqual(
      [...forced.values()].filter((each) => each !== 'applied' && each !== 'same'),
      [],
    );
    assert.ok(!existsSync(path('tree')) && text('swapped') === 'box\n');
    await host.remove('removes');
  });

  it('a directory that a rule hides stays hidden whatever the box moves', async () => {
    put('above/repo/secrets/key', 'TOKEN=1\n');
    put('above/repo/open', 'open\n');
    const place = path('above/repo');
    const script = `cd /; mv ${dirname(place)} ${dirname(place)}2 && mkdir -p ${place}/secrets && echo moved`;
    const rules = ['--repo', 'none', '--cow', place, '--hide', `${place}/secrets`];
    await host.printed('run', '--keep', '--name', 'moves', ...rules, '--', 'sh', '-c', script);
    const seen = await host.box(
      'exec',
      'moves',
      '--',
      'sh',
      '-c',
      `ls -R ${place}; cat ${place}/secrets/key`,
    );
    assert.doesNotMatch(`${seen.stdout.toString()}${seen.stderr}`, /TOKEN/);
    await host.remove('moves');
  });

  it('an upper’s second apply, renamed directories, empty ones, modes and removed names come as they are', async () => {
    for (const name of ['again/a/one', 'again/a/two', 'again/gone', 'again/full/x', 'again/kind'])
      put(name, 'old\n');
    const first =
      'cd again; echo 1 > new; mv a b; rm gone; mkdir -p empty/in; chmod 755 kind; rm -r full; mkdir full; echo y > full/y';
    await host.start('again', `${first}; touch ready; read x < /dev/null; sleep 600`);
    await delay(500);
    const outcomes = await host.apply('again', 'again');
    assert.deepEqual(
      [...outcomes].filter(([, each]) => each !== 'applied' && each !== 'same'),
      [],
    );
    assert.deepEqual(readdirSync(path('again')).toSorted(), ['b', 'empty', 'full', 'kind', 'new', 'ready']);
    assert.deepEqual(readdirSync(path('again/full')), ['y']);
    assert.ok(
      (statSync(path('again/kind')).mode & 0o111) !== 0 && statSync(path('again/empty/in')).isDirectory(),
    );
    await host.printed(
      'exec',
      'again',
      '--',
      'sh',
      '-c',
      'cd again; echo 2 > new; rm -r b; rm kind; mkdir kind; echo z > kind/z',
    );
    const second = await host.apply('again', 'again');
    assert.deepEqual(
      [...second].filter(([, each]) => each !== 'applied' && each !== 'same'),
      [],
    );
    assert.equal(text('again/new'), '2\n');
    assert.equal(text('again/kind/z'), 'z\n');
    assert.ok(!existsSync(path('again/b')));
    assert.equal(await host.printed('diff', 'again', 'again'), '');
    await host.remove('again');
  });

  it('shows the lines that differ, whoever owns the box’s files', async () => {
    put('shown', 'one\ntwo\n');
    await host.make('shown', 'printf "one\\n\\033[2Jtwo\\n" > shown; echo new > added; ln -s shown lnk');
    const shown = await host.printed('diff', 'shown', '-p', 'shown', 'added');
    assert.match(shown, /^-two$/m);
    assert.match(shown, /^\+\\u\{1b\}\[2Jtwo$/m);
    assert.match(shown, /^\+new$/m);
    await host.printed('discard', 'shown', '--yes');
    assert.equal(text('shown'), 'one\ntwo\n');
    assert.equal((await host.box('diff', 'shown')).code === 0, false);
  });
});
