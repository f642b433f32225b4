/**
 * The original's `sq-ctl`: same commands, same words, the API's JSON on standard output. `packaging/bin/sq-ctl` calls it.
 *
 * The original built a shell line from its arguments and evaluated it, so that a quote in a command ran on the
 * host; here words stay words. What it did not have: a refused request exits with 1 instead of 0.
 */
import { Client, modulesPath, sandboxesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { move } from '../bucket-words.ts';
import { moduleSides, type Sides, snapshotSides } from '../bucket-sync.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';

interface OldCommand {
  readonly usage: string;
  readonly about: string;
  readonly required: number;
  readonly run: (client: Client, words: readonly string[]) => Promise<unknown>;
}

const oldCommands: Readonly<Record<string, OldCommand>> = {
  create: {
    usage: '<id> <owner> [layers] [task]',
    about: 'make a sandbox; layers are joined by commas',
    required: 2,
    run: (client, [id, owner, layers, task]) =>
      client.post(sandboxesPath, {
        id,
        owner,
        ...(layers ? { layers } : {}),
        task: task ?? '',
      }),
  },
  exec: {
    usage: '<id> <cmd>',
    about: 'run a shell line in it',
    required: 2,
    run: (client, [id = '', ...cmd]) => client.post(sandboxPath(id, ['exec']), { cmd: cmd.join(' ') }),
  },
  info: {
    usage: '<id>',
    about: 'one sandbox',
    required: 1,
    run: (client, [id = '']) => client.get(sandboxPath(id)),
  },
  list: { usage: '', about: 'all sandboxes', required: 0, run: (client) => client.get(sandboxesPath) },
  activate: {
    usage: '<id> <module>',
    about: 'add a layer to a live sandbox',
    required: 2,
    run: (client, [id = '', module]) => client.post(sandboxPath(id, ['activate']), { module }),
  },
  snapshot: {
    usage: '<id> [label]',
    about: 'keep its files',
    required: 1,
    run: (client, words) => takeSnapshot(client, words),
  },
  restore: {
    usage: '<id> <label>',
    about: 'put its files back',
    required: 2,
    run: (client, [id = '', label]) => client.post(sandboxPath(id, ['restore']), { label }),
  },
  logs: {
    usage: '<id>',
    about: 'what ran in it',
    required: 1,
    run: (client, [id = '']) => client.get(sandboxPath(id, ['logs'])),
  },
  destroy: {
    usage: '<id>',
    about: 'remove it',
    required: 1,
    run: async (client, [id = '']) => {
      await client.delete(sandboxPath(id));
      printLine(`destroyed: ${id}`);
      return undefined;
    },
  },
  modules: { usage: '', about: 'the modules', required: 0, run: (client) => client.get(modulesPath) },
  gc: {
    usage: '[--dry-run]',
    about: 'remove what is unpacked and not used',
    required: 0,
    run: (client, words) => client.post('/cgi-bin/api/gc', { dry_run: words.includes('--dry-run') }),
  },
  push: {
    usage: '[modules|snapshots <id>]',
    about: 'bring them to the bucket',
    required: 0,
    run: async (client, words) => {
      await move(client, { did: 'push', names: (await sidesOf(client, words)).here }, false);
    },
  },
  pull: {
    usage: '[modules|snapshots <id>]',
    about: 'bring them from the bucket',
    required: 0,
    run: async (client, words) => {
      await move(client, { did: 'pull', names: (await sidesOf(client, words)).elsewhere }, false);
    },
  },
  sync: {
    usage: '[id]',
    about: 'both: modules, and with an id its snapshots',
    required: 0,
    run: (client, words) => syncAll(client, words),
  },
  health: {
    usage: '',
    about: 'whether the daemon answers',
    required: 0,
    run: (client) => client.get('/cgi-bin/health'),
  },
};

/** Parts of the original that this Squash does not have yet. */
const missing: Readonly<Record<string, string>> = {
  wg: 'WireGuard',
  'browser-open': 'the desktop layer',
};

export async function run(call: Call): Promise<number> {
  const [name = 'help', ...words] = call.rest;
  const part = missing[name];
  if (part !== undefined)
    throw new CliFailure('unsupported_feature', `${name} needs ${part}, which this Squash does not have`);
  const command = oldCommands[name];
  if (command === undefined) {
    printLine(help());
    return exitCodes.ok;
  }
  if (words.length < command.required) {
    printLine(`usage: sq-ctl ${name} ${command.usage}`);
    return exitCodes.failed;
  }
  try {
    const answer = await command.run(new Client(addressOptions()), words);
    if (answer !== undefined) printJson(answer);
    return exitCodes.ok;
  } catch (failure) {
    if (!(failure instanceof CliFailure) || failure.exitCode !== exitCodes.failed) throw failure;
    // As the original, which printed whatever the API answered.
    printJson({ error: failure.message, code: failure.code });
    return exitCodes.failed;
  }
}

/** `SQUASH_PORT` alone named the daemon in the original; the socket is of the data directory that is named. */
function addressOptions(): ConstructorParameters<typeof Client>[0] {
  const env = process.env;
  const token = env['SQUASH_AUTH_TOKEN'];
  const named =
    env['SQUASH_API'] ||
    env['SQUASH_SOCKET'] ||
    env['SQUASH_DATA'] ||
    env['SQUASH_DATA_DIR'] ||
    env['SQUASH_RUN'];
  if (!named && env['SQUASH_PORT']) return { token, url: `http://127.0.0.1:${env['SQUASH_PORT']}` };
  return { token };
}

async function takeSnapshot(client: Client, words: readonly string[]): Promise<unknown> {
  const [id = '', label] = words.filter((word) => word !== '--local');
  if (words.includes('--local')) printNote('sq-ctl: --local says nothing here: every snapshot is local');
  return await client.post(sandboxPath(id, ['snapshot']), label === undefined ? {} : { label });
}

async function sidesOf(client: Client, [what = 'modules', id]: readonly string[]): Promise<Sides> {
  if (what === 'modules') return await moduleSides(client);
  if (what === 'snapshots' && id !== undefined) return await snapshotSides(client, id);
  throw new CliFailure('invalid_request', 'say "modules", or "snapshots" and a sandbox');
}

async function syncAll(client: Client, words: readonly string[]): Promise<undefined> {
  const [id] = words.filter((word) => word !== '--background');
  if (words.includes('--background'))
    printNote('sq-ctl: --background says nothing here: what waits is pushed by itself');
  const all = [['modules'], ...(id === undefined ? [] : [['snapshots', id]])];
  for (const what of all) {
    const { here, elsewhere } = await sidesOf(client, what);
    await move(client, { did: 'push', names: here }, false);
    await move(client, { did: 'pull', names: elsewhere }, false);
  }
}

function help(): string {
  const lines = Object.entries(oldCommands).map(
    ([name, { usage, about }]) => `  ${name.padEnd(9)}${usage.padEnd(33)}${about}`,
  );
  return ['usage: sq-ctl <command> [args]', '', ...lines, '', 'More can be done with: squash help'].join(
    '\n',
  );
}
