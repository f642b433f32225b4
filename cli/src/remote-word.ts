/** Words that name a place in a sandbox. */
export interface RemoteWord {
  readonly id: string;
  readonly path: string;
}

/** `ID:/PATH`; what has no colon before its first slash is a local path. */
export function remoteOf(word: string): RemoteWord | undefined {
  const [, id, path] = /^([A-Za-z0-9][A-Za-z0-9._-]*):(\/.*)$/s.exec(word) ?? [];
  return id === undefined || path === undefined ? undefined : { id, path };
}
