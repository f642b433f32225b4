/** What a line of words means: where options end and a command begins, and what is refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { checkPositionals, parseArguments } from './arguments.ts';
import { commandTable, findCommand } from './command-table.ts';
import { CliFailure } from './failure.ts';

function parse(line: string) {
  const found = findCommand(line.split(' '));
  assert.ok(found, line);
  const parsed = parseArguments(found.spec, found.words);
  checkPositionals(found.spec, parsed);
  return parsed;
}

describe('arguments', () => {
  it('of exec belong to us before the command and to the command after its first word', () => {
    for (const line of ['exec -t box ls -t -l', 'exec box -t ls -t -l', 'exec box -t -- ls -t -l']) {
      const parsed = parse(line);
      assert.deepEqual(parsed.positionals, ['box'], line);
      assert.deepEqual(parsed.rest, ['ls', '-t', '-l'], line);
      assert.ok(parsed.flags.isSet('tty'), line);
    }
  });

  it('of exec keep a second -- for the command', () => {
    assert.deepEqual(parse('exec box -- git log -- file').rest, ['git', 'log', '--', 'file']);
  });

  it('take values as --name value, --name=value, -n value and -nvalue', () => {
    for (const line of ['--workdir /tmp', '--workdir=/tmp', '-w /tmp', '-w/tmp', '-tiw /tmp']) {
      assert.equal(parse(`exec ${line} box true`).flags.text('workdir'), '/tmp', line);
    }
  });

  it('may stand before the command where they are global', () => {
    const parsed = parse('--socket /s --json ls -q');
    assert.equal(parsed.flags.text('socket'), '/s');
    assert.ok(parsed.flags.isSet('json') && parsed.flags.isSet('quiet'));
  });

  it('repeat where the table says so and are refused elsewhere', () => {
    assert.deepEqual(parse('exec -e A=1 -e B=2 box true').flags.list('env'), ['A=1', 'B=2']);
    assert.throws(() => parse('exec -w /a -w /b box true'), CliFailure);
  });

  it('that are unknown, surplus, missing or out of range are refused as usage', () => {
    const wrong = [
      'ls --nope',
      'ls -Z',
      'ls more',
      'info',
      'info a b',
      'exec --workdir',
      'ls --quiet=1',
      'ls --json=1',
      'activate',
    ];
    for (const line of wrong) {
      assert.throws(
        () => parse(line),
        (error) => error instanceof CliFailure && error.exitCode === 2,
        line,
      );
    }
    const flags = parse('exec --timeout 1.5 box true').flags;
    assert.equal(flags.number('timeout', { min: 0, max: 9 }), 1.5);
    assert.throws(() => flags.integer('timeout', { min: 0, max: 9 }), CliFailure);
    assert.throws(() => flags.number('timeout', { min: 2, max: 9 }), CliFailure);
    assert.throws(
      () => parse('exec --timeout 1e3 box true').flags.number('timeout', { min: 0, max: 9 }),
      CliFailure,
    );
  });

  it('of any kind either parse or are refused as usage, and -- hands on everything behind it', () => {
    const word = fc.oneof(fc.string(), fc.constantFrom('-', '-t', '-e', 'A=1', '--json', '--workdir', 'box'));
    fc.assert(
      fc.property(
        fc.constantFrom(...commandTable),
        fc.array(word),
        fc.array(fc.string()),
        (spec, words, tail) => {
          try {
            const parsed = parseArguments(spec, [...words.filter((each) => each !== '--'), '--', ...tail]);
            const all = [...parsed.positionals, ...parsed.rest];
            assert.deepEqual(tail.length === 0 ? [] : all.slice(-tail.length), tail);
          } catch (error) {
            assert.ok(error instanceof CliFailure && error.exitCode === 2, String(error));
          }
        },
      ),
    );
  });
});

describe('the command table', () => {
  it('loads a module that runs for every row', async () => {
    for (const spec of commandTable) assert.equal(typeof (await spec.load()).run, 'function', spec.name);
  });

  it('gives no command two flags of one name', () => {
    for (const spec of commandTable) {
      const names = [...spec.flags.map((flag) => flag.name), 'json', 'url', 'socket', 'token', 'help'];
      assert.equal(new Set(names).size, names.length, spec.name);
      const shorts = [...spec.flags.flatMap((flag) => flag.short ?? []), 'h'];
      assert.equal(new Set(shorts).size, shorts.length, spec.name);
    }
  });

  it('finds two-word commands and none for a word that is not there', () => {
    assert.equal(findCommand(['module', 'import', 'f'])?.spec.name, 'module import');
    assert.equal(findCommand(['module']), undefined);
    assert.equal(findCommand(['nope']), undefined);
    assert.equal(findCommand([]), undefined);
  });
});
