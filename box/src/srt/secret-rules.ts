/** The Sandbox Runtime's credentials as secrets of a policy, and what is closed instead. Pure. */
import { type FieldNote, tellFields } from './field.ts';
import { credentialFields, extractFields } from './fields.ts';
import type { SrtSettings } from './settings.ts';

export interface SecretRules {
  /** By variable, the hosts that get its value. */
  readonly secrets: ReadonlyMap<string, readonly string[]>;
  /** Variables that the command does not get. */
  readonly absent: readonly string[];
  /** As they are written. */
  readonly hiddenFiles: readonly string[];
  readonly notes: readonly FieldNote[];
  readonly refused: readonly FieldNote[];
}

export function secretRules(
  credentials: SrtSettings['credentials'],
  allowed: readonly string[],
): SecretRules {
  const told = { notes: [] as FieldNote[], refused: [] as FieldNote[] };
  const secrets = new Map<string, readonly string[]>();
  const absent: string[] = [];
  const hiddenFiles: string[] = [];
  tellFields(credentialFields, { prefix: 'credentials.', values: credentials ?? {} }, told);
  for (const [at, { name, mode, ...entry }] of (credentials?.envVars ?? []).entries()) {
    const field = `credentials.envVars[${at}]`;
    const hosts = entry.injectHosts ?? allowed;
    tellFields(extractFields, { prefix: `${field}.`, values: entry }, told);
    const isHeld = mode === 'mask' && hosts.length > 0 && hosts.length <= 64 && name.length <= 64;
    if (isHeld) {
      secrets.set(name, hosts);
      told.notes.push({
        field,
        text: `${name}: a placeholder, whose value goes to ${hosts.length} hosts in headers over TLS; it has 8 characters at least`,
      });
    } else absent.push(name);
    if (mode === 'mask' && hosts.length === 0)
      told.notes.push({ field, text: `${name}: no host may have its value: it is not passed` });
    else if (mode === 'mask' && !isHeld)
      told.refused.push({
        field,
        text: `${name.slice(0, 128)}: a secret has 64 hosts at most, and so many letters`,
      });
  }
  for (const [at, { path, mode, ...entry }] of (credentials?.files ?? []).entries()) {
    const field = `credentials.files[${at}]`;
    tellFields(extractFields, { prefix: `${field}.`, values: entry }, told);
    hiddenFiles.push(path);
    if (mode === 'mask')
      told.refused.push({
        field,
        text: `${JSON.stringify(path.slice(0, 256))}: a placeholder stands in a variable here, not in a file; without it the file is hidden`,
      });
  }
  return { secrets, absent, hiddenFiles, ...told };
}
