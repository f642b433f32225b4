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
    throw new CodemodeError('config', `can't read "${path}"`, { cause });
  }
  return parseServers(text, path);
}

export function parseServers(text: string, name: string): ServersConfig {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw new CodemodeError('config', `"${name}" is no JSON`, { cause });
  }
  const parsed = configSchema.safeParse(raw);
  if (!parsed.success) throw new CodemodeError('config', `"${name}": ${z.prettifyError(parsed.error)}`);
  return parsed.data.mcpServers;
}
