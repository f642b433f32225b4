/**
 * What a caller may do, least first: each scope includes those before it.
 *
 * `read` looks, `exec` runs commands and changes files in sandboxes, `manage` makes, changes and removes sandboxes,
 * `admin` is the operator: keys, secrets, modules, and the sandboxes of every owner.
 */
export const scopes = ['read', 'exec', 'manage', 'admin'] as const;
export type Scope = (typeof scopes)[number];

export function includesScope(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed);
}
