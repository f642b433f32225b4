/**
 * A sandbox's label in the host names of its ports: the id itself where a DNS label can be it, so that people can guess the
 * address, else what is left of the id with random characters behind it.
 */
import { randomBytes } from 'node:crypto';
import { type HostLabel, hostLabelSchema, type SandboxId } from '@squash/contract/ids';

export function labelOf(id: SandboxId): HostLabel {
  const same = hostLabelSchema.safeParse(id);
  return same.success ? same.data : freshLabel(id);
}

/** Never the same one twice: 48 random bits. */
export function freshLabel(id: SandboxId): HostLabel {
  const words = id.toLowerCase().slice(0, 37).split(/[-_]+/);
  return hostLabelSchema.parse([...words.filter(Boolean), randomBytes(6).toString('hex')].join('-'));
}
