/** What a row of the table of variables (`config.ts`) says. */

export type SettingKind =
  | { readonly type: 'text' }
  | { readonly type: 'secret' }
  | { readonly type: 'path' }
  | { readonly type: 'flag' }
  | { readonly type: 'host' }
  | { readonly type: 'hosts' }
  /** A name below which others are, or of a bucket; empty is none. */
  | { readonly type: 'domain' }
  | { readonly type: 'bucket' }
  /** `http://` or `https://`, a host, perhaps a port, and nothing behind; empty is none. */
  | { readonly type: 'url' }
  | { readonly type: 'port' }
  | { readonly type: 'integer'; readonly min: number; readonly max: number }
  /** Ranges of addresses in CIDR notation, or single addresses, separated by commas. */
  | { readonly type: 'ranges' }
  /** Hosts, or addresses, each with an optional port, separated by commas. */
  | { readonly type: 'registries' }
  | { readonly type: 'servers' }
  | { readonly type: 'choice'; readonly choices: readonly string[] };

export interface Setting {
  readonly name: string;
  readonly kind: SettingKind;
  /** The text that has the same effect as leaving the variable out. */
  readonly default: string;
  /** Where the default is found out rather than written: how. */
  readonly defaultIs?: string;
  readonly meaning: string;
  /** `original`: in the README of the original; `squash`: new; `client`: read by the CLI; `test`: for the suites. */
  readonly origin: 'original' | 'squash' | 'client' | 'test';
  /** The part that this variable belongs to and that does not exist yet. */
  readonly part?: string;
  /** Has no effect of its own: it only completes the named variable, which is the one that is refused. */
  readonly completes?: string;
}
