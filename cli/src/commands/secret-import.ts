/**
 * `squash secret import`: the login of a coding agent's own program as a secret that is refreshed on the host. Nothing of the file is
 * printed, in messages neither; endpoints, client ids and hosts are those that the programs use themselves.
 */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { SecretChange, SecretInfo } from '@squash/contract/secrets';
import type { Call } from '../command.ts';
import { exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';
import { secretsPath } from './secret-ls.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Found {
  /** The variable in the sandbox. */
  readonly name: string;
  readonly change: SecretChange;
}

interface Program {
  readonly path: string;
  /** @returns undefined where the file has no login */
  readonly read: (file: Fields) => Found | undefined;
}

const programs: Readonly<Record<string, Program>> = {
  claude: { path: '.claude/.credentials.json', read: readClaude },
  codex: { path: '.codex/auth.json', read: readCodex },
};

export async function run(call: Call): Promise<number> {
  const [word = '', file] = call.positionals;
  const program = programs[word];
  if (program === undefined) throw usageFailure(`"${word}" is none of ${Object.keys(programs).join(', ')}`);
  const path = file ?? join(homedir(), program.path);
  const found = program.read(readFile(path));
  if (found === undefined) throw usageFailure(`"${path}" has no login of ${word}`);
  const { flags } = call;
  const name = flags.isSet('name') ? flags.text('name') : found.name;
  const info = await call.client.put<SecretInfo>(secretsPath(name), found.change);
  if (call.json) printJson(info);
  else printLine(`${info.name} ${info.placeholder}`);
  if (info.token_url !== undefined) {
    printNote(
      `note: this login is Squash's from now on: log in anew with ${word} where you use it elsewhere`,
    );
  }
  return exitCodes.ok;
}

/** JSON.parse quotes what it stumbled over, which may be a token: its words do not go on. */
function readFile(path: string): Fields {
  let text: string;
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    throw usageFailure(`can't read "${path}": ${fileProblem(cause)}`);
  }
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    throw usageFailure(`"${path}" is no JSON`);
  }
}

function readClaude({ claudeAiOauth }: Fields): Found | undefined {
  const { accessToken, refreshToken, expiresAt } = fieldsOf(claudeAiOauth);
  if (!isText(refreshToken)) return undefined;
  const oauth = {
    token_url: 'https://platform.claude.com/v1/oauth/token',
    client_id: '9d1c250a-e61b-44d9-88ed-5944d1962f5e',
    refresh_token: refreshToken,
    body: 'json' as const,
    ...(isText(accessToken) && { access_token: accessToken, ...endAt(expiresAt) }),
  };
  return { name: 'CLAUDE_CODE_OAUTH_TOKEN', change: { oauth, allowed_hosts: ['api.anthropic.com'] } };
}

/** A login with ChatGPT; else the key that the program was given. */
function readCodex({ tokens, OPENAI_API_KEY: key }: Fields): Found | undefined {
  const { access_token: accessToken, refresh_token: refreshToken } = fieldsOf(tokens);
  if (isText(refreshToken)) {
    const oauth = {
      token_url: 'https://auth.openai.com/oauth/token',
      client_id: 'app_EMoamEEZ73f0CkXaXp7hrann',
      refresh_token: refreshToken,
      body: 'json' as const,
      ...(isText(accessToken) && { access_token: accessToken, ...endAt(endOfJwt(accessToken)) }),
    };
    return { name: 'CODEX_ACCESS_TOKEN', change: { oauth, allowed_hosts: ['chatgpt.com'] } };
  }
  if (!isText(key)) return undefined;
  return { name: 'OPENAI_API_KEY', change: { value: key, allowed_hosts: ['api.openai.com'] } };
}

/** @param ms since 1970 */
function endAt(ms: unknown): { readonly expires_at?: string } {
  const isTime = typeof ms === 'number' && ms > 0 && ms < Date.UTC(9999, 0);
  return isTime ? { expires_at: new Date(ms).toISOString() } : {};
}

/** The file of Codex has no end of the token; the token itself says it. */
function endOfJwt(token: string): number | undefined {
  const [, claims = ''] = token.split('.');
  try {
    const { exp } = fieldsOf(JSON.parse(Buffer.from(claims, 'base64url').toString()));
    return typeof exp === 'number' ? exp * 1_000 : undefined;
  } catch {
    // No JWT: a 401 will say when it has ended.
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
