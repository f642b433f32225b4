/** The usual `mcpServers` file: which MCP servers there are, and how to reach them. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { CodemodeError } from '../errors.ts';

const stdioSchema = z.looseObject({
  type: z.literal('stdio').optional(),
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  cwd: z.string().optional(),
});

const httpSchema = z.looseObject({
  type: z.enum(['http', 'streamable-http', 'streamableHttp']).optional(),
  url: z.url({ protocol: /^https?$/ }),
  headers: z.record(z.string(), z.string()).default({}),
});

const serverSchema = z.union([stdioSchema, httpSchema]);

/** Other keys are other programs' business: the file is shared with them. */
const configSchema = z.looseObject({ mcpServers: z.record(z.string().min(1), serverSchema) });

export type ServerConfig = z.infer<typeof serverSchema>;
export type ServersConfig = Readonly<Record<string, ServerConfig>>;

/** @throws CodemodeError of kind `config` */
export function readServers(path: string): ServersConfig {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    const why = isMissing ? 'there is no such file' : (cause as Error).message;
    throw new CodemodeError('config', `can't read "${path}": ${why}`, { cause });
  }
  return parseServers(text, path);
}

export function parseServers(text: string, name: string): ServersConfig {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    // The place alone: what stands there may be a key.
    const [place = ''] = /\(line \d+ column \d+\)/.exec((cause as Error).message) ?? [];
    throw new CodemodeError('config', `"${name}" is no JSON ${place}`.trimEnd(), { cause });
  }
  const parsed = configSchema.safeParse(raw);
  if (!parsed.success) throw new CodemodeError('config', `"${name}": ${sentence(parsed.error.issues[0])}`);
  return parsed.data.mcpServers;
}

function sentence(issue: z.core.$ZodIssue | undefined): string {
  const [, server, ...more] = issue?.path ?? [];
  if (server === undefined) return 'it has no "mcpServers" with an entry for each server';
  const entry = `the entry of "${String(server)}"`;
  if (more.length > 0) return `${entry}: ${more.map(String).join('.')}: ${issue?.message ?? 'malformed'}`;
  return `${entry} has neither a "command" with its "args" nor a "url", each of the right form`;
}
