/**
 * The configuration after the edge: every value typed, checked and defaulted. Nothing behind it reads a variable.
 */
import type { Backend } from '@squash/contract/backend';
import type { Secret } from '@squash/base/secret';
import type { LogLevel } from '@squash/base/log';

export interface Config {
  /** Absolute. */
  readonly dataDir: string;
  /** Absolute; sockets and locks. */
  readonly runDir: string;
  /** Of sandboxes that ask for none. */
  readonly backend: Backend;
  /** The VMM of all microVMs; undefined: QEMU. Without a path there is none to be had. */
  readonly firecracker: { readonly path: string | undefined } | undefined;
  /** Of VMs in QEMU. */
  readonly vmAccelerator: 'auto' | 'kvm' | 'tcg';
  readonly listen: ListenConfig;
  readonly authToken: Secret | undefined;
  /** Lower case, without port; `*.name` for all subdomains. */
  readonly allowedHosts: readonly string[];
  readonly isStrictContentType: boolean;
  /** Lower case; of previews beside `localhost`. */
  readonly previewDomain: string | undefined;
  /** Of previews over TLS; undefined: none. */
  readonly previewTlsPort: number | undefined;
  /** Where the SSH gateway listens; undefined: there is none. */
  readonly ssh: { readonly host: string; readonly port: number } | undefined;
  readonly sandboxesMax: number;
  readonly upperLimitBytes: number;
  readonly ceilings: {
    readonly cpuMax: number;
    readonly memoryMbMax: number;
    /** 0: none. */
    readonly lifetimeSMax: number;
  };
  /** Percents of what the host has; 0: promises are not counted. */
  readonly admission: {
    readonly memoryReserveBytes: number;
    readonly memoryPercentMax: number;
    readonly cpuPercentMax: number;
    readonly diskPercentMax: number;
  };
  readonly requiresLimits: boolean;
  /** Sandboxes may have the host's file system as their root. */
  readonly offersHostRoot: boolean;
  /** Whose policies may name the host's loopback without a ceiling that does. */
  readonly hostPorts: 'off' | 'boxes';
  /** Without a running sandbox and a client, until the daemon ends; 0: it does not. */
  readonly idleExitMs: number;
  readonly upper: 'auto' | 'directory' | 'project' | 'image' | 'tmpfs';
  readonly overlay: 'auto' | 'kernel' | 'fuse';
  /** How long the launcher may be silent. */
  readonly hungMs: number;
  readonly ids: 'auto' | 'range' | 'shared' | 'single' | 'own';
  /** TLS is read where a secret or a rule asks for it. */
  readonly interceptsTls: boolean;
  /** Ranges in CIDR notation that count as public. */
  readonly egressAllowRanges: readonly string[];
  /** DNS servers and a file of names for the egress process; none: the host's own. */
  readonly egressResolvers: readonly string[];
  readonly egressHostsFile: string | undefined;
  /** Ranges in CIDR notation that webhooks reach although they are not public. */
  readonly webhookRanges: readonly string[];
  readonly registries: RegistryConfig;
  /** undefined: no bucket. */
  readonly s3: S3Config | undefined;
  /** Between two saves in ephemeral mode; undefined: not the mode. */
  readonly ephemeralMs: number | undefined;
  readonly log: { readonly level: LogLevel; readonly format: 'auto' | 'json' | 'pretty' };
}

/** `port` undefined: no TCP. 0: the kernel chooses. */
interface ListenConfig {
  readonly host: string;
  readonly port: number | undefined;
}

export interface RegistryConfig {
  /** Absolute; undefined: nobody is logged in anywhere. */
  readonly authFile: string | undefined;
  /** `host[:port]` of those that are spoken to over plain HTTP. */
  readonly insecure: readonly string[];
}

export interface S3Config {
  readonly bucket: string;
  /** `http(s)://host[:port]`; undefined: Amazon’s own for the region. */
  readonly endpoint: string | undefined;
  readonly region: string;
  /** Empty, or with a `/` at its end and none at its beginning. */
  readonly prefix: string;
  readonly keyId: string;
  readonly key: Secret;
}

/** One row of `squash doctor --config`. */
export interface ExplainedSetting {
  readonly name: string;
  /** The effective value, a secret as `[redacted]`. */
  readonly value: string;
  readonly source: 'environment' | '.env' | 'default';
  readonly meaning: string;
}

/**
 * What a daemon started inside the launcher's namespaces must be told: there it is uid 0 whoever started it,
 * so it would find other default directories.
 */
export function pinnedEnvironment(config: Config): Readonly<Record<string, string>> {
  return { SQUASH_DATA: config.dataDir, SQUASH_RUN: config.runDir, SQUASH_DATA_DIR: '' };
}
