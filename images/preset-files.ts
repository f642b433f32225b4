/**
 * Finds presets: the project's own in `images/presets/`, a user's in the directory that `SQUASH_PRESETS` names, or one file
 * by its path. A name that both have is the user's.
 */
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Failure } from '@squash/base/failure';
import { type Preset, parsePreset } from './preset.ts';

export interface FoundPreset {
  readonly preset: Preset;
  /** Texts of its files, by place. */
  readonly files: Readonly<Record<string, string>>;
  /** Where it was read. */
  readonly path: string;
}

const own = join(import.meta.dirname, 'presets');
/** A preset holds texts of a megabyte at most, and few of them. */
const bytesMax = 4_194_304;

function userDirectory(): string | undefined {
  const directory = process.env['SQUASH_PRESETS'];
  return directory === undefined || directory === '' ? undefined : resolve(directory);
}

/** All of them, by number and name. @throws where one is not valid */
export function allPresets(): readonly FoundPreset[] {
  const mine = userDirectory();
  const found = new Map<string, FoundPreset>();
  for (const directory of [own, ...(mine === undefined ? [] : [mine])]) {
    for (const path of filesOf(directory)) {
      const each = readPreset(path);
      found.set(each.preset.name, each);
    }
  }
  const order = ({ preset }: FoundPreset) => `${preset.prefix}-${preset.module}`;
  return [...found.values()].sort((one, other) => (order(one) < order(other) ? -1 : 1));
}

/** @param word a name, another name of the preset, the module's name, or the path of a file */
export function findPreset(word: string): FoundPreset {
  if (word.endsWith('.json') || word.includes('/')) return readPreset(resolve(word));
  // The file of this name first: one that is not valid and that nobody asks for is in nobody's way.
  for (const directory of [userDirectory(), own]) {
    const path = directory === undefined ? undefined : join(directory, `${word}.json`);
    if (path === undefined || statSync(path, { throwIfNoEntry: false }) === undefined) continue;
    const found = readPreset(path);
    if (found.preset.name === word) return found;
  }
  const presets = allPresets();
  const named = presets.find(({ preset }) => preset.name === word || preset.aliases.includes(word));
  const found = named ?? presets.find(({ preset }) => `${preset.prefix}-${preset.module}` === word);
  if (found !== undefined) return found;
  throw new Failure(
    'usage',
    `no preset "${word}"; there are ${presets.map(({ preset }) => preset.name).join(', ')}, or the path of a file of your own`,
  );
}

function filesOf(directory: string): readonly string[] {
  try {
    const names = readdirSync(directory).filter((name) => name.endsWith('.json'));
    return names.sort().map((name) => join(directory, name));
  } catch (cause) {
    throw new Failure('preset_unreadable', `the directory of presets "${directory}": ${reason(cause)}`, {
      cause,
    });
  }
}

function readPreset(path: string): FoundPreset {
  const preset = parsePreset(readText(path, path), path);
  // The project's own share files with other parts; a user's preset takes what lies beside it and nothing else.
  const root = dirname(path) === own ? import.meta.dirname : dirname(path);
  const files = Object.entries(preset.files).map(([place, file]) => {
    if (typeof file === 'string') return [place, file] as const;
    const where = `${path}: "files.${place}.from"`;
    return [place, readText(inside(root, file.from, where), where)] as const;
  });
  return { preset, files: Object.fromEntries(files), path };
}

/** Whoever wrote the preset may be somebody else: it must not take the user's keys into a layer by a link. */
function inside(root: string, name: string, where: string): string {
  try {
    const path = realpathSync(join(root, name));
    if (path.startsWith(`${realpathSync(root)}/`)) return path;
  } catch (cause) {
    throw new Failure('preset_invalid', `preset "${where}": "${name}": ${reason(cause)}`, { cause });
  }
  throw new Failure('preset_invalid', `preset "${where}": "${name}" leads out of the preset's directory`);
}

function readText(path: string, where: string): string {
  try {
    const found = statSync(path);
    if (!found.isFile() || found.size > bytesMax)
      throw new Failure('preset_invalid', `is no file of ${bytesMax} bytes at most`);
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new Failure('preset_unreadable', `preset "${where}": ${reason(cause)}`, { cause });
  }
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
