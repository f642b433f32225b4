/** Tools about sandboxes themselves. What one may reach is never said here: it is as the operator has it, or as the one it is made from. */
import { NotFound, type Sandbox } from '@squash/sdk';
import { z } from 'zod';
import { cleanLine } from '../output/clean.ts';
import { boxOf, defineTool, sandboxShape, structuredAnswer, textAnswer } from '../tool.ts';
import { ToolError } from '../tool-error.ts';

const sandboxOutput = {
  id: z.string(),
  name: z.string().nullable(),
  state: z.string(),
  layers: z.array(z.string()),
  own: z.boolean().describe('the one that is used where no `sandbox` is named'),
};

export const createSandbox = defineTool({
  name: 'create_sandbox',
  title: 'Create a sandbox',
  description:
    'Makes one more sandbox, empty, or from the files of another one as they are now or as a snapshot has them. Not needed for ordinary work: ' +
    'without it the session’s own is used. Name its id as `sandbox` in other tools.',
  kind: 'adds',
  input: z.object({
    name: z.string().min(1).max(64).optional().describe('for people'),
    from: z.string().min(1).max(64).optional().describe('id of the sandbox whose files it gets'),
    snapshot: z.string().min(1).max(128).optional().describe('of `from`: as this snapshot has them'),
  }),
  output: z.object(sandboxOutput),
  run: async ({ name, from, snapshot }, call) => {
    if (snapshot !== undefined && from === undefined)
      throw new ToolError('from_needed', '`snapshot` needs the sandbox that it is of', 'Name it in `from`');
    const source =
      from === undefined
        ? undefined
        : { sandbox: (await call.session.box(from)).id, ...(snapshot !== undefined && { snapshot }) };
    const made = await call.session.create({
      ...(name !== undefined && { name }),
      ...(source !== undefined && { from: source }),
    });
    return structuredAnswer(shown(made, false));
  },
});

function shown({ id, info }: Sandbox, own: boolean) {
  return { id, name: info.name, state: info.state, layers: info.layers, own };
}

const listMax = 200;

export const listSandboxes = defineTool({
  name: 'list_sandboxes',
  title: 'List sandboxes',
  description: 'Lists the sandboxes that these tools can work in, newest first.',
  kind: 'reads',
  input: z.object({}),
  output: z.object({ sandboxes: z.array(z.object(sandboxOutput)), more: z.boolean() }),
  run: async (_input, { session, signal }) => {
    const { squash, sandbox } = session.options;
    if (sandbox !== undefined) {
      const box = await squash.sandboxes.get(sandbox, { signal });
      return structuredAnswer({ sandboxes: [shown(box, true)], more: false });
    }
    const sandboxes = [];
    for await (const box of squash.sandboxes.list({ signal })) {
      if (!session.mayUse(box.id)) continue;
      if (sandboxes.length === listMax) return structuredAnswer({ sandboxes, more: true });
      sandboxes.push(shown(box, await session.isOwn(box.id)));
    }
    return structuredAnswer({ sandboxes, more: false });
  },
});

export const removeSandbox = defineTool({
  name: 'remove_sandbox',
  title: 'Remove a sandbox',
  description:
    'Ends everything in a sandbox and removes it with its files and snapshots. It can not be taken back.',
  kind: 'destroys',
  input: z.object({ sandbox: z.string().min(1).max(64).describe('its id') }),
  run: async ({ sandbox }, call) => {
    const box = await boxOf({ sandbox }, call);
    try {
      await call.session.remove(box);
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      await call.session.forgetGone(box.id);
    }
    return textAnswer(`Sandbox ${cleanLine(box.id)} is gone.`);
  },
});

export const snapshotTool = defineTool({
  name: 'snapshot',
  title: 'Take a snapshot',
  description:
    'Saves the files of a sandbox under a label, to go back to. What runs stands still for a moment and goes on.',
  kind: 'adds',
  input: z.object({
    ...sandboxShape,
    label: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('letters, digits, ".", "_" and "-"; without it the time'),
  }),
  output: z.object({ label: z.string(), size_bytes: z.int() }),
  run: async ({ label, ...where }, call) => {
    const box = await boxOf(where, call);
    const taken = await box.snapshots.create(label === undefined ? {} : { label });
    return structuredAnswer({ label: taken.label, size_bytes: taken.size_bytes });
  },
});

export const restoreSnapshot = defineTool({
  name: 'restore_snapshot',
  title: 'Go back to a snapshot',
  description:
    'Replaces the files of a sandbox by those of a snapshot of it. What was written since is lost, and everything that runs ends.',
  kind: 'destroys',
  input: z.object({ ...sandboxShape, label: z.string().min(1).max(128) }),
  run: async ({ label, ...where }, call) => {
    const box = await boxOf(where, call);
    try {
      await box.snapshots.restore(label);
    } catch (error) {
      if (!(error instanceof NotFound) || error.code !== 'snapshot_not_found') throw error;
      throw new ToolError(error.code, error.message, await labelsOf(box));
    }
    return textAnswer(`The files are as snapshot ${cleanLine(label)} has them.`);
  },
});

async function labelsOf(box: Sandbox): Promise<string> {
  const labels: string[] = [];
  for await (const { label } of box.snapshots.list({ limit: 50 })) {
    labels.push(label);
    if (labels.length === 50) break;
  }
  return labels.length === 0
    ? 'There is none yet: take one with snapshot'
    : `There are: ${labels.join(', ')}`;
}

export const openPort = defineTool({
  name: 'open_port',
  title: 'Open a port',
  description:
    'Waits until a program of the sandbox listens on a port and answers a link, with which a person opens it in a browser until the link ends. ' +
    'Who has the link sees the port.',
  kind: 'asks',
  input: z.object({
    ...sandboxShape,
    port: z.int().min(1).max(65_535),
    wait_seconds: z.number().min(0).max(300).default(10),
    expires_seconds: z.int().min(60).max(86_400).default(3_600),
  }),
  output: z.object({ port: z.int(), url: z.string(), expires_at: z.string() }),
  run: async ({ port, wait_seconds, expires_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    await box.ports.wait(port, { timeout_ms: Math.round(wait_seconds * 1_000), signal: call.signal });
    const { url, expires_at } = await box.ports.url(port, { expires_s: expires_seconds });
    if (url === null)
      throw new ToolError(
        'no_address',
        'the daemon listens on its Unix socket alone, so the port has no address',
        'The operator can give the daemon a port (SQUASH_PORT)',
      );
    return structuredAnswer({ port, url, expires_at });
  },
});
