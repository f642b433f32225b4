/** `boot/about.json` of a layer with a guest's kernel: what it is made of, so that its own digest is that of all. */
import type { DebianPackage } from './debian-packages.ts';
import type { Brought } from './sources.ts';

/** What the driver asks for by name. */
const parts = { qemu: 'qemu-system-x86', vsock: 'vhost-device-vsock' } as const;

/** Empty of a layer without a kernel. */
export function aboutGuest({ kernel, packages }: Brought): Readonly<Record<string, string>> {
  if (kernel === undefined) return {};
  const named = Object.entries(parts).map(([part, name]) => {
    const found = packages.find((each) => each.name === name);
    return [part, found === undefined ? null : described(found)];
  });
  const about = {
    schema: 1,
    kernel: { ...described(kernel.image), version: kernel.version },
    ...Object.fromEntries(named),
    packages: packages.map(described),
  };
  return { 'boot/about.json': `${JSON.stringify(about, null, 2)}\n` };
}

function described({ name, version, sha256 }: DebianPackage): Readonly<Record<string, string>> {
  return { package: name, version, sha256 };
}
