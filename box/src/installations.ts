/**
 * What a program of PATH needs beside itself: the packages that npm has put next to a `bin`, the virtual environment that its
 * interpreter is of, the tools that a version manager's stand-ins lead to. Programs and libraries all of it; no place here holds a login.
 *
 * A virtual environment may be a stranger's, who writes in it which Python it is of: what is no Python is not opened for that word.
 */
import { type Dirent, existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { canonical } from './host-paths.ts';
import { isExecutable } from './program.ts';

/** Directories of PATH in the home directory, and where their programs look. */
const managers: Readonly<Record<string, readonly string[]>> = {
  '.cargo/bin': ['.rustup/toolchains', '.rustup/settings.toml', '.rustup/update-hashes'],
  '.pyenv/shims': ['.pyenv'],
  '.pyenv/bin': ['.pyenv'],
  '.rbenv/shims': ['.rbenv'],
  '.volta/bin': ['.volta'],
  '.asdf/shims': ['.asdf'],
  '.local/share/mise/shims': ['.local/share/mise'],
};

/** @param directory of PATH, canonical @returns canonical */
export function besideDirectory(directory: string, home: string): readonly string[] {
  const found = [join(dirname(directory), 'lib/node_modules'), virtualEnvironment(directory)];
  for (const [name, places] of Object.entries(managers)) {
    if (directory === join(home, name)) found.push(...places.map((place) => join(home, place)));
  }
  return found.flatMap((path) => (path === undefined ? [] : (canonical(path) ?? [])));
}

/** @param file a program, canonical @returns canonical */
export function besideProgram(file: string): readonly string[] {
  const modules = /^.*?\/node_modules(?=\/)/.exec(file)?.[0];
  const environment = virtualEnvironment(dirname(file));
  const found = [modules, environment, ...interpreters(environment)];
  return found.flatMap((path) => (path === undefined ? [] : (canonical(path) ?? [])));
}

/** Programs that a directory of PATH has as links, as pipx, uv and installers of single programs put them. Canonical. */
export function linkedPrograms(directory: string): readonly string[] {
  return entriesOf(directory)
    .filter((entry) => entry.isSymbolicLink())
    .flatMap(({ name }) => canonical(join(directory, name)) ?? [])
    .filter(isExecutable);
}

function entriesOf(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    // Whoever may only search it can't list what it holds.
    return [];
  }
}

/** The one that a directory of PATH is of. */
export function virtualEnvironment(directory: string): string | undefined {
  const parent = dirname(directory);
  const isOne = basename(directory) === 'bin' && home(parent) !== undefined;
  return isOne ? parent : undefined;
}

/** The Python of the virtual environment that a program is of by its name, wherever that leads. Canonical. */
export function pythonOf(program: string): readonly string[] {
  return interpreters(virtualEnvironment(dirname(program))).flatMap((path) => canonical(path) ?? []);
}

/** The Python that a virtual environment is of: its `bin` and what lies beside it. */
function interpreters(environment: string | undefined): readonly string[] {
  const bin = environment === undefined ? undefined : home(environment);
  const place = bin === undefined || basename(bin) !== 'bin' ? undefined : dirname(bin);
  return place !== undefined && isPython(place) ? [place] : [];
}

/** Its library lies there. `~/.local` has a directory of that name as well, with packages in it and no library. */
function isPython(place: string): boolean {
  return entriesOf(join(place, 'lib')).some(
    ({ name }) => /^(?:python|pypy)\d/.test(name) && existsSync(join(place, 'lib', name, 'os.py')),
  );
}

function home(environment: string): string | undefined {
  try {
    const text = readFileSync(join(environment, 'pyvenv.cfg'), 'utf8');
    return /^home\s*=\s*(\/\S.*?)\s*$/m.exec(text)?.[1];
  } catch {
    // No virtual environment.
    return undefined;
  }
}
