/**
 * The parts that plug into the process: policy, secrets, interception. The only file that knows all of them.
 */
import { join } from 'node:path';
import { approvedSchema, ceilingSchema, policySchema } from '@squash/contract/policy';
import { systemClock } from '@squash/base/clock';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { type Cidr, parseCidr } from '@squash/policy/address/cidr';
import type { EgressParts } from './egress-process.ts';
import { dialledFrom } from './connections/own-addresses.ts';
import { compilePolicy } from '@squash/policy/compile';
import type { CompilePolicy } from './ports.ts';
import { HttpInterceptor } from './intercept/interceptor.ts';
import { upstreamRoots } from './intercept/upstream-socket.ts';
import { FileSecretStore } from './secrets/secret-store.ts';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { LeafCache } from './intercept/leaf-cache.ts';

/** When a start is over: the first connection over TLS does not wait for it then, unless it comes at once. */
const rootsAfterMs = 1_000;

/** @throws Error where the authority's files are not as they must be */
export async function makeParts(dataDir: string, log: Log): Promise<EgressParts> {
  const authority = await loadInstallationCa(join(dataDir, 'proxy-ca'), systemClock);
  const roots = upstreamRoots();
  setTimeout(roots, rootsAfterMs).unref();
  const interceptor = new HttpInterceptor({
    leaves: new LeafCache(authority, systemClock),
    roots,
    clock: systemClock,
  });
  const secrets = new FileSecretStore(join(dataDir, 'secrets.json'), log, { roots, clock: systemClock });
  return { compilePolicy: compile, secrets, interceptor };
}

const compile: CompilePolicy = (source, { ceiling, allowCidrs, approved, listeners, reachesHost = false }) =>
  compilePolicy({
    policy: policySchema.parse(source),
    ceiling: ceiling === null || ceiling === undefined ? undefined : ceilingSchema.parse(ceiling),
    approved: approvedSchema.parse(approved),
    allowRanges: allowCidrs.map(parseRange),
    host: dialledFrom(listeners),
    reachesHost,
  });

function parseRange(text: string): Cidr {
  const range = parseCidr(text);
  if (range === undefined) throw new Failure('no_range', `"${text}" is no range of addresses`);
  return range;
}
