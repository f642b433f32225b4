/**
 * What Node, Deno and Bun have and browsers have not. Their own modules are taken through `process.getBuiltinModule`, so that no
 * import stands here that a browser's bundler would trip over.
 */
import type fs from 'node:fs';
import type http from 'node:http';
import type https from 'node:https';
import type os from 'node:os';
import type path from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface NodeParts {
  readonly fs: typeof fs;
  readonly http: typeof http;
  readonly https: typeof https;
  readonly path: typeof path;
  readonly env: Environment;
  /** Effective user id; -1 where there is none. */
  readonly uid: number;
  readonly home: string;
  readonly parseEnv: (text: string) => Readonly<Record<string, string | undefined>>;
}

let found: NodeParts | undefined | null = null;

/** Undefined in a browser. */
export function nodeParts(): NodeParts | undefined {
  if (found === null) found = lookAround();
  return found;
}

function lookAround(): NodeParts | undefined {
  const process = (globalThis as { readonly process?: NodeJS.Process }).process;
  if (typeof process?.getBuiltinModule !== 'function') return undefined;
  const { parseEnv } = process.getBuiltinModule('node:util');
  return {
    fs: process.getBuiltinModule('node:fs'),
    // Asked for where they are needed: they double the time of a short program.
    get http() {
      return process.getBuiltinModule('node:http');
    },
    get https() {
      return process.getBuiltinModule('node:https');
    },
    path: process.getBuiltinModule('node:path'),
    env: process.env,
    uid: process.geteuid?.() ?? -1,
    get home() {
      return homeDirectory(process.getBuiltinModule('node:os'), process.env);
    },
    parseEnv,
  };
}

/** The password database's, not that of `HOME`, which `sudo` may leave pointing elsewhere. */
function homeDirectory({ userInfo }: typeof os, env: NodeJS.ProcessEnv): string {
  try {
    return userInfo().homedir;
  } catch {
    // A container's user without a row in the password database has only the variable.
    return env['HOME'] ?? '/';
  }
}
