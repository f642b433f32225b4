/** The command line’s page against the command table, and the systemd units against systemd. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, test } from 'node:test';
import { operations } from '@squash/contract/operations/table';
import { commandTable } from '../../cli/src/command-table.ts';
import { usageWords } from '../../cli/src/help.ts';

const root = new URL('../..', import.meta.url).pathname;

describe('docs/cli.md', () => {
  const text = readFileSync(join(root, 'docs/cli.md'), 'utf8');

  it('has every command with its words, and every option with its meaning', () => {
    for (const spec of commandTable.filter((each) => each.hidden === undefined)) {
      const [, behind] = text.split(`\n\`squash ${spec.name}${usageWords(spec)}\`\n`);
      assert.ok(behind !== undefined, spec.name);
      const section = behind.split(/\n(?:`squash |#)/, 1)[0] ?? '';
      // Those of another command stand there.
      const told = /\boptions of |\boptions .*are those of|as for `create`/.test(section) ? text : section;
      for (const flag of spec.flags) {
        const short = flag.short === undefined ? '' : `-${flag.short}, `;
        const value = flag.value === undefined ? '' : ` ${flag.value}`;
        assert.ok(
          told.includes(`\n- \`${short}--${flag.name}${value}\` ${flag.summary}`),
          `${spec.name} ${flag.name}`,
        );
      }
      for (const [, name] of section.matchAll(/^- `(?:-\w, )?--([\w-]+)/gm))
        assert.ok(
          spec.flags.some((flag) => flag.name === name),
          `${spec.name} has no --${name}`,
        );
    }
  });
});

test('docs/errors.md has every code that the command line has of its own', () => {
  const text = readFileSync(join(root, 'docs/errors.md'), 'utf8');
  const sources = globSync('cli/src/**/*.ts', { cwd: root }).map((file) =>
    readFileSync(join(root, file), 'utf8'),
  );
  const codes = sources.flatMap((source) =>
    [...source.matchAll(/new CliFailure\(\s*'([a-z_]+)'/g)].map(([, code]) => code),
  );
  assert.ok(codes.includes('usage') && codes.includes('start_failed'));
  for (const code of new Set(codes)) assert.ok(text.includes(`| \`${code}\` |`), code);
});

test('docs/backends.md says of every operation what it is in a microVM, and names no refusal that it does not have', () => {
  const text = readFileSync(join(root, 'docs/backends.md'), 'utf8');
  const section = text.split('\n## Every operation\n')[1]?.split('\n## ')[0] ?? '';
  const rows = section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const told = rows.flatMap(([, names = '', how = '']) =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, id = '']) => ({ id, how })),
  );
  assert.deepEqual(told.map(({ id }) => id).sort(), Object.keys(operations).sort());
  for (const { id, how } of told) {
    const errors: readonly string[] = operations[id as keyof typeof operations].errors;
    for (const [code] of how.matchAll(/\bvm_\w+/g)) assert.ok(errors.includes(code), `${id} has no ${code}`);
    assert.notEqual(how, '', id);
  }
});

describe('systemd units', () => {
  const skip = existsSync('/usr/bin/systemd-analyze') ? false : 'systemd-analyze is not installed';
  for (const [unit, path] of [
    ['squash.service', '/opt/squash/squash'],
    ['squash-user.service', '%h/squash/squash'],
  ] as const) {
    it(`${unit} passes systemd-analyze verify`, { skip }, () => {
      const text = readFileSync(join(root, 'packaging/systemd', unit), 'utf8');
      assert.ok(text.includes(`ExecStart=${path} serve`));
      const directory = mkdtempSync(join(tmpdir(), 'squash-unit-'));
      try {
        // The program of this checkout instead of the installed one, which verify looks for.
        const copy = join(directory, 'squash.service');
        writeFileSync(copy, text.replace(path, join(root, 'squash')));
        const mode = unit === 'squash.service' ? '--system' : '--user';
        const env = { ...process.env, XDG_RUNTIME_DIR: directory, SYSTEMD_LOG_LEVEL: 'warning' };
        const said = execFileSync('systemd-analyze', [mode, '--man=no', 'verify', copy], {
          encoding: 'utf8',
          env,
          stdio: 'pipe',
        });
        assert.equal(said, '');
      } finally {
        rmSync(directory, { recursive: true });
      }
    });

    it(`${unit} leaves sandboxes alive and their groups to the daemon`, () => {
      const text = readFileSync(join(root, 'packaging/systemd', unit), 'utf8');
      assert.match(text, /^Delegate=yes$/m);
      assert.match(text, /^KillMode=process$/m);
      // Each of these takes something away that a sandbox is made of, or gives the data back to root.
      assert.doesNotMatch(
        text,
        /^(RestrictNamespaces|PrivateUsers|NoNewPrivileges|StateDirectory|ProtectHostname)=/m,
      );
    });
  }

  for (const [unit, path] of [
    ['squash-certificate.service', '/opt/squash/squash'],
    ['squash-user-certificate.service', '%h/squash/squash'],
  ] as const) {
    it(`${unit} and its timer pass systemd-analyze verify`, { skip }, () => {
      const text = readFileSync(join(root, 'packaging/systemd', unit), 'utf8');
      assert.ok(text.includes(`ExecStart=${path} certificate --dns-hook `));
      const directory = mkdtempSync(join(tmpdir(), 'squash-unit-'));
      try {
        const timer = join(directory, 'squash-certificate.timer');
        copyFileSync(join(root, 'packaging/systemd/squash-certificate.timer'), timer);
        writeFileSync(
          join(directory, 'squash-certificate.service'),
          text.replace(path, join(root, 'squash')),
        );
        const mode = path.startsWith('%h') ? '--user' : '--system';
        const env = {
          ...process.env,
          XDG_RUNTIME_DIR: directory,
          SYSTEMD_LOG_LEVEL: 'warning',
          SYSTEMD_UNIT_PATH: `${directory}:`,
        };
        const said = execFileSync('systemd-analyze', [mode, '--man=no', 'verify', timer], {
          encoding: 'utf8',
          env,
          stdio: 'pipe',
        });
        assert.equal(said, '');
      } finally {
        rmSync(directory, { recursive: true });
      }
    });
  }
});
