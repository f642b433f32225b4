/**
 * Builds the daemon's side of the network from its configuration: the operator's files are read and checked here, before
 * any sandbox is touched; the egress process itself is started when the engine knows its sandboxes.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { errorText } from '@squash/base/bug';
import { ceilingSchema, type PolicySource } from '@squash/contract/policy';
import { ownPresetsSchema } from '@squash/contract/own-presets';
import { type Upstreams, upstreamsSchema } from '@squash/contract/upstreams';
import { useOwnPresets } from '@squash/contract/presets';
import { systemClock } from '@squash/base/clock';
import type { Config } from '../config/config.ts';
import type { LaunchClient } from '../launch/launch-client.ts';
import { EgressClient } from './egress-client.ts';
import { EgressNetwork } from './egress-network.ts';
import { startEgress } from './egress-process.ts';
import { confineEgress, type FirstEgressOptions, type FirstEgress } from './first-egress.ts';
import { readOperatorFile } from './operator-file.ts';
import { OwnSecretsKeeper } from './own-secrets-keeper.ts';
import { SecretsFileKeeper } from './secrets-keeper.ts';
import { besideDaemon } from './beside-daemon.ts';
import { TrustLayers } from './trust-layers.ts';

export interface OpenEgressOptions extends FirstEgressOptions {
  readonly first: FirstEgress;
}

/** What the API needs, and the network for the engine. */
export interface OpenedEgress {
  readonly network: EgressNetwork;
  readonly secrets: SecretsFileKeeper;
  readonly rules: {
    readonly ceiling: PolicySource | undefined;
    readonly allowRanges: readonly string[];
    readonly hostPorts: Config['hostPorts'];
    readonly upstreams: Upstreams;
  };
}

/** @throws config_invalid where secrets.json, egress-presets.json, egress-ceiling.json, egress-upstreams.json or the authority's key can't be used */
export async function openEgress({
  config,
  launcher,
  build,
  first,
  log,
}: OpenEgressOptions): Promise<OpenedEgress> {
  const { dataDir, runDir } = config;
  const secrets = new SecretsFileKeeper(dataDir, log);
  // First: the ceiling may name them.
  const presets = readOperatorFile({ dataDir, name: 'egress-presets.json' }, ownPresetsSchema) ?? [];
  useOwnPresets(presets);
  const ceiling = readOperatorFile({ dataDir, name: 'egress-ceiling.json' }, ceilingSchema);
  const upstreams =
    readOperatorFile({ dataDir, name: 'egress-upstreams.json', isPrivate: true }, upstreamsSchema) ?? {};
  const rules = { ceiling, allowRanges: config.egressAllowRanges, hostPorts: config.hostPorts, upstreams };
  await mkdir(join(dataDir, 'log'), { recursive: true, mode: 0o700 });
  if (!config.interceptsTls) {
    const remedy = 'SQUASH_PROXY_HTTPS=1 has them go over TLS only';
    log.warn('egress.plain_secrets', {
      problem: 'SQUASH_PROXY_HTTPS=0: values of secrets go out in plain HTTP',
      remedy,
    });
  }
  const upstreamProblems = besideDaemon(upstreams, config);
  for (const { message } of upstreamProblems) log.warn('egress.upstream', { problem: message });
  const network = new EgressNetwork({
    client: new EgressClient(runDir),
    version: build,
    first,
    start: () => startEgress({ ...config, build }),
    confine: (pid) => confineEgress(pid, { launcher, log }),
    trust: config.interceptsTls ? await trustLayers(dataDir, launcher) : undefined,
    ...rules,
    upstreamProblems,
    presets,
    listen: config.listen,
    secrets,
    dataDir,
    ownSecrets: new OwnSecretsKeeper(dataDir, log),
    log,
  });
  return { network, secrets, rules };
}

async function trustLayers(dataDir: string, launcher: LaunchClient): Promise<TrustLayers> {
  let authority: string;
  try {
    ({ certificate: authority } = await loadInstallationCa(join(dataDir, 'proxy-ca'), systemClock));
  } catch (error) {
    throw new AppError('config_invalid', `Cannot use the installation's authority: ${errorText(error)}`, {
      cause: error,
    });
  }
  return new TrustLayers({ dataDir, authority, removeTree: (path) => launcher.removeTree(path) });
}
