/**
 * The parts that plug into the process: policy, secrets, interception. The only file that knows all of them.
 */
import { join } from 'node:path';
import { policySchema } from '@squash/contract/policy';
import type { Log } from '@squash/host/base/log';
import { type Cidr, parseCidr } from './address/cidr.ts';
import type { EgressParts } from './egress-process.ts';
import { compilePolicy } from './policy/compile.ts';
import type { CompilePolicy, Interceptor } from './ports.ts';
import { FileSecretStore } from './secrets/secret-store.ts';

export function makeParts(dataDir: string, log: Log): EgressParts {
  const secrets = new FileSecretStore(join(dataDir, 'secrets.json'), log);
  return { compilePolicy: compile, secrets, interceptor: closing };
}

const compile: CompilePolicy = (source, { ceiling, allowCidrs }) =>
  compilePolicy({
    policy: policySchema.parse(source),
    ceiling: ceiling === null || ceiling === undefined ? undefined : policySchema.parse(ceiling),
    allowRanges: allowCidrs.map(parseRange),
  });

function parseRange(text: string): Cidr {
  const range = parseCidr(text);
  if (range === undefined) throw new Error(`"${text}" is no range of addresses`);
  return range;
}

/** What must be read is not let through unread. */
const closing: Interceptor = {
  intercept: (stream) => {
    stream.destroy();
    return Promise.resolve();
  },
};
