/** `true` in a sandbox that exists, by every way to ask for it; peers without such sandboxes make one each time. */
import { Squash } from '@squash/sdk';
import { timed, timeToExit } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { PythonExec } from '../squash/python.ts';
import { type Context, openOnStack, rounds, squashSubjects } from './context.ts';

const slowEvery = 8;

export async function execScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'exec',
    title: 'Exec',
    about:
      'The command `true`, from the request (or spawn of the client program) to its exit code. The row of the first byte is a process of `/v1`, from its start to the first byte that it writes. Tools that keep no sandbox make one for each command; these rows say "new sandbox".',
    metrics: [{ id: 'exec', title: 'exec `true`', unit: 'ms' }],
    warmups: 10,
    rounds: rounds(context, 200),
    subjects: [
      ...(await squashSubjects(context, async (squash) => {
        const id = await squash.createOnStack(stack);
        return [
          {
            name: 'Squash, HTTP keep-alive',
            cycle: async () => execIn(() => squash.client.exec(id, 'true')),
          },
          {
            name: 'Squash, HTTP keep-alive, /v1',
            cycle: async () => execIn(() => squash.client.run(id, ['true'])),
          },
          {
            name: 'Squash, /v1, first byte of a stream',
            cycle: async () => ({ exec: await squash.client.firstByte(id, ['echo', 'first']) }),
          },
          {
            name: 'Squash, native stream',
            cycle: async () => execIn(() => squash.client.stream(id, ['true'])),
          },
          await typescriptSubject(new Squash({ url: `http://127.0.0.1:${squash.env['SQUASH_PORT']}` }), id),
          ...pythonSubjects(new PythonExec(squash.env['SQUASH_PORT'] ?? '', id), stack),
          {
            name: 'Squash, CLI',
            every: slowEvery,
            cycle: async () => ({ exec: await timeToExit(squash.cli('exec', id, '--', 'true'), squash.env) }),
          },
        ];
      })),
      {
        name: 'node -e 0 (the CLI’s floor)',
        every: slowEvery,
        cycle: async () => ({ exec: await timeToExit([process.execPath, '-e', '0']) }),
      },
      ...(await peerSubjects(context, stack)),
      ...context.peers.absent,
    ],
  };
}

/** Its floor is the row of `/v1`: Node's own HTTP client, and no key by which the daemon would know the request again. */
async function typescriptSubject(squash: Squash, id: string): Promise<Subject> {
  const box = await squash.sandboxes.get(id);
  return {
    name: 'Squash, /v1, TypeScript SDK',
    cycle: async () => execIn(async () => (await box.exec(['true'])).check()),
  };
}

function pythonSubjects(python: PythonExec, stack: AsyncDisposableStack): readonly Subject[] {
  stack.use(python);
  const ways = {
    'Python SDK': 'sdk',
    'Python SDK, async': 'async',
    'Python’s http.client (the floor)': 'http.client',
  } as const;
  return Object.entries(ways).map(([name, way]) => ({
    name: `Squash, /v1, ${name}`,
    cycle: async () => ({ exec: await python.exec(way) }),
  }));
}

async function peerSubjects(context: Context, stack: AsyncDisposableStack): Promise<Subject[]> {
  const subjects: Subject[] = [];
  for (const peer of context.peers.present) {
    subjects.push({
      name: `${peer.name}, new sandbox`,
      every: peer.every,
      cycle: async () => execIn(async () => await timeToExit(peer.once(['/bin/true']), peer.env)),
    });
    const sandbox = await openOnStack(peer, stack);
    const argv = sandbox?.exec?.(['/bin/true']);
    if (argv === undefined) continue;
    subjects.push({
      name: `${peer.name} exec`,
      every: peer.every,
      cycle: async () => ({ exec: await timeToExit(argv) }),
    });
  }
  return subjects;
}

async function execIn(step: () => Promise<unknown>): Promise<{ exec: number }> {
  return { exec: await timed(step) };
}
