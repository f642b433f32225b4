/** Settings in the form of Anthropic's Sandbox Runtime, as far as programs that hold them read fields of their own. */

export interface SrtNetwork {
  readonly allowedDomains: readonly string[];
  readonly deniedDomains: readonly string[];
  readonly strictAllowlist?: boolean;
  readonly [field: string]: unknown;
}

export interface SrtFilesystem {
  readonly denyRead: readonly SrtPath[];
  readonly allowRead?: readonly SrtPath[];
  readonly allowWrite: readonly SrtPath[];
  readonly denyWrite: readonly SrtPath[];
  readonly [field: string]: unknown;
}

export type SrtPath = string | { readonly path: string; readonly literal?: boolean };

export interface SrtConfig {
  readonly network: SrtNetwork;
  readonly filesystem: SrtFilesystem;
  readonly [field: string]: unknown;
}

export interface SrtCustomConfig {
  readonly network?: Partial<SrtNetwork>;
  readonly filesystem?: Partial<SrtFilesystem>;
  readonly [field: string]: unknown;
}

/** Of one command. A strict list of hosts is everybody's. */
export function withCustom(config: SrtConfig, custom: SrtCustomConfig): SrtConfig {
  const { network = {}, filesystem = {}, ...others } = custom;
  const { allowedDomains: _allowed, ...stricter } = network;
  const own = config.network.strictAllowlist === true ? stricter : network;
  return {
    ...config,
    ...others,
    network: { ...config.network, ...own },
    filesystem: { ...config.filesystem, ...filesystem },
  };
}

/** The path of the first value that no file could hold. */
export function functionIn(value: unknown, path = ''): string | undefined {
  if (typeof value === 'function') return path;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, each] of Object.entries(value)) {
    const found = functionIn(each, path === '' ? name : `${path}.${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function pathWords(paths: readonly SrtPath[] = []): readonly string[] {
  return paths.map((each) => (typeof each === 'string' ? each : each.path));
}
