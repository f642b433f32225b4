/**
 * What of `/sys` comes with a device: the kernel's own directory about it, read-only, by which libraries find out what stands behind a
 * number (libdrm, and so Mesa and Vulkan, by `/sys/dev/char/226:128/device/vendor`). Of a PCI card that is the directory of its function.
 * Not for root, who reads there what reaches the card's memory (`resource0`).
 */
import type { HostPaths } from '@squash/contract/host-root';
import type { PathFacts } from '@squash/policy/paths/compile';
import { absoluteLink, isWithin } from '@squash/policy/paths/levels';

const pciFunction = /^\/sys\/devices\/pci[^/]*\/.*\/?[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/;

/** Rules beside those that were judged. @param devices paths that the judge has let through */
export function sysfsOf(devices: readonly string[], facts: PathFacts): HostPaths {
  const rules: Record<string, 'ro'> = {};
  for (const path of devices) {
    const device = facts.stat(path)?.device;
    if (device === undefined) continue;
    const link = `/sys/dev/char/${device.major}:${device.minor}`;
    const own = directoryBehind(link, facts);
    if (own === undefined) continue;
    rules[link] = 'ro';
    rules[own] = 'ro';
    const parent = directoryBehind(`${own}/device`, facts);
    if (parent !== undefined && pciFunction.test(parent)) rules[parent] = 'ro';
  }
  return rules;
}

function directoryBehind(link: string, facts: PathFacts): string | undefined {
  if (facts.stat(link)?.type !== 'link') return undefined;
  const target = absoluteLink(link, facts.links(link));
  const isThere = isWithin(target, '/sys/devices') && facts.stat(target)?.type === 'directory';
  return isThere ? target : undefined;
}
