/** Paths as text: none of these functions asks the file system. All paths are absolute and plain, as the kernel would say them. */

/** The path itself, its parent, … up to `/`. */
export function* upwards(path: string): Generator<string> {
  let at = path;
  yield at;
  while (at !== '/') {
    at = parentOf(at);
    yield at;
  }
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

export function joined(directory: string, name: string): string {
  return directory === '/' ? `/${name}` : `${directory}/${name}`;
}

/** The longest of the map's paths that is this one or stands above it. */
export function longestMatch<T>(
  rules: ReadonlyMap<string, T>,
  path: string,
): { readonly path: string; readonly rule: T } | undefined {
  for (const at of upwards(path)) {
    const rule = rules.get(at);
    if (rule !== undefined) return { path: at, rule };
  }
  return undefined;
}
