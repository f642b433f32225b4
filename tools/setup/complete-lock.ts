/**
 * Adds to package-lock.json the optional packages of machines that Squash does not run on, where npm left them out.
 *
 * A registry mirror may not hold `@biomejs/cli-darwin-arm64` and its like. npm then writes a lock file without
 * them and refuses that file at the next `npm ci`. Such an entry says what npm needs to pass the package over:
 * its version and the machine it is for. Run it after `npm install` changed the lock file.
 */
import { readFileSync, writeFileSync } from 'node:fs';

interface Locked {
  readonly version?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const systems = [
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
];
const processors = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64'];

const path = new URL('../../package-lock.json', import.meta.url);
const lock: { packages: Record<string, Locked> } = JSON.parse(readFileSync(path, 'utf8'));

/** The machine that a package's name ends in, as in `binding-linux-x64-musl`. */
function machineOf(
  name: string,
): { readonly os: string[]; readonly cpu: string[]; readonly libc?: string[] } | undefined {
  const words = (name.split('/').at(-1) ?? '').split('-');
  const os = words.filter((word) => systems.includes(word));
  const cpu = words.filter((word) => processors.includes(word));
  if (os.length === 0 || cpu.length === 0) return undefined;
  return words.includes('musl') ? { os, cpu, libc: ['musl'] } : { os, cpu };
}

for (const locked of Object.values({ ...lock.packages })) {
  for (const [name, version] of Object.entries(locked.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`;
    const machine = machineOf(name);
    if (lock.packages[key] !== undefined || machine === undefined || !/^\d/.test(version)) continue;
    lock.packages[key] = {
      version,
      ...machine,
      ...(locked.dev === true && { dev: true }),
      optional: true,
    };
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
