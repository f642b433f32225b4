/** Every key of deer's configuration, of a repository's `deer.toml` and of a person's own, with what becomes of it here. */
import { z } from 'zod';
import type { Fields } from '../srt/field.ts';

const text = z.string().max(4_096);
const texts = z.array(text).max(2_000).optional();

const work = 'a box works over the repository as it is checked out';
const setup =
  'no command of a file runs on this machine: run it in the box, before the agent (deer runs it unconfined)';
const credentials =
  'write [secrets.NAME] with from = "env:VARIABLE" and hosts in your own policy file; the box gets a placeholder';

export const rootFields = {
  base_branch: { shape: text.optional(), fate: 'refused', note: work },
  setup_command: { shape: text.optional(), fate: 'refused', note: setup },
} as const satisfies Fields;

export const defaultsFields = {
  agent: { shape: text.optional(), fate: 'refused', note: 'the agent is the command that is run' },
  base_branch: { shape: text.optional(), fate: 'refused', note: work },
  timeout_ms: {
    shape: z.number().positive().optional(),
    fate: 'mapped',
    note: 'limits.time_s: the command is ended after it',
  },
  setup_command: { shape: text.optional(), fate: 'refused', note: setup },
} as const satisfies Fields;

export const networkFields = {
  allowlist: { shape: texts, fate: 'mapped' },
  allowlist_extra: {
    shape: texts,
    fate: 'mapped',
    note: 'net.allow; deer’s own list is not added: extend builtin:agent and builtin:node for what they need',
  },
} as const satisfies Fields;

const passed = 'env.pass; deer reads the key and passes every variable';
const written = 'fs: rw';

export const sandboxFields = {
  runtime: {
    shape: text.optional(),
    fate: 'refused',
    note: 'there is one wall here',
    isHarmless: (value) => value === 'srt',
  },
  env_passthrough: { shape: texts, fate: 'mapped', note: passed },
  env_passthrough_extra: { shape: texts, fate: 'mapped', note: passed },
  write_paths: { shape: texts, fate: 'mapped', note: written },
  write_paths_extra: { shape: texts, fate: 'mapped', note: written },
  read_paths: { shape: texts, fate: 'mapped' },
  read_paths_extra: { shape: texts, fate: 'mapped' },
  proxy_credentials: { shape: z.unknown().optional(), fate: 'refused', note: credentials },
  proxy_credentials_extra: { shape: z.unknown().optional(), fate: 'refused', note: credentials },
  ecosystems_disabled: {
    shape: texts,
    fate: 'mapped',
    note: 'caches: those that are not named are copy-on-write',
  },
} as const satisfies Fields;
