/** A resolved policy as a file that says the same, for `--print-policy` and `policy show`. Pure. */
import { type PolicyFile, publishedPort } from './file-schema.ts';
import type { Traced } from './layers.ts';
import { limitNames, type ResolvedPolicy } from './merge.ts';

/** The form of a file: what `version` and the sections of `PolicyFile` are before they are parsed. */
export type PolicyText = Readonly<Record<string, unknown>> & { readonly version: 1 };

/** Given with `--policy` it makes the same box, on this machine and as long as the managed file is the same. */
export function policyText(policy: ResolvedPolicy): PolicyText {
  const { paths, net, env, secrets, ports, sockets, devices, nesting, limits, workdir } = policy;
  const values = <T>(list: readonly Traced<T>[]): readonly T[] => list.map(({ value }) => value);
  const set = Object.fromEntries([...env.set].map(([name, { value }]) => [name, value]));
  const limited = limitNames.flatMap((name) => {
    const limit = limits[name];
    return limit === undefined ? [] : [[name, limit.value]];
  });
  return {
    version: 1,
    ...(workdir !== undefined && {
      workdir: { source: workdir.value, mode: openedMode(paths.get(workdir.value)?.level) },
    }),
    fs: Object.fromEntries(
      [...paths].map(([path, { level, text }]) => [path, level === 'mask' ? { mask: text ?? '' } : level]),
    ),
    env: { pass: values(env.pass), set },
    net: {
      allow: net.allow,
      ...(net.deny.length > 0 && { deny: net.deny }),
      ...(net.ask !== undefined && { ask: net.ask }),
      dns: net.dns,
      ...(net.ask_timeout_ms !== undefined && { ask_timeout_ms: net.ask_timeout_ms }),
    },
    ...(secrets.size > 0 && {
      secrets: Object.fromEntries(
        [...secrets].map(([name, { from, hosts, surfaces }]) => [
          name,
          { from, hosts, ...(surfaces !== undefined && { surfaces }) },
        ]),
      ),
    }),
    ...((ports.host.length > 0 || ports.publish.length > 0) && {
      ports: {
        ...(ports.host.length > 0 && { host: values(ports.host) }),
        ...(ports.publish.length > 0 && { publish: values(ports.publish).map(publishedPort) }),
      },
    }),
    ...(sockets.length > 0 && { sockets: { allow: values(sockets) } }),
    ...(devices.length > 0 && { devices: { allow: values(devices) } }),
    ...(nesting !== undefined && { nesting: true }),
    ...(limited.length > 0 && { limits: Object.fromEntries(limited) }),
  };
}

function openedMode(level: string | undefined): Exclude<PolicyFile['workdir'], undefined>['mode'] {
  return level === 'rw' || level === 'ro' ? level : 'cow';
}
