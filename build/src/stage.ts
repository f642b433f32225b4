/** What holds at a place of a stage: the image so far, and what the instructions since then say of it. */
import { createHash } from 'node:crypto';
import type { Image } from '@squash/sdk';
import { type Instruction, jsonWords } from './dockerfile.ts';
import { argOf, platformValue, reading } from './plan.ts';
import { BuildProblem } from './problem.ts';
import { readWord, readWords } from './words.ts';

/** What commands have where no image says otherwise. */
const pathDefault = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** What the next image has beside its files. */
export interface Changes {
  env: Record<string, string>;
  labels: Record<string, string>;
  user?: string;
  workdir?: string;
  entrypoint?: readonly string[];
  cmd?: readonly string[];
}

export class StageState {
  /** What all of it is called in the cache. */
  key: string;
  image: Image;
  /** Not in the image yet. */
  changes: Changes = { env: {}, labels: {} };
  /** Directories of WORKDIR that may not be there yet. */
  directories: readonly string[] = [];
  shell: readonly string[] = ['/bin/sh', '-c'];
  readonly args = new Map<string, string>();
  #hasOwnCmd = false;

  constructor(key: string, image: Image) {
    this.key = key;
    this.image = image;
  }

  /** For another stage that begins where this one ends. */
  copy(): StageState {
    const copied = new StageState(this.key, this.image);
    copied.changes = { ...this.changes, env: { ...this.changes.env }, labels: { ...this.changes.labels } };
    copied.directories = this.directories;
    copied.shell = this.shell;
    for (const [name, value] of this.args) copied.args.set(name, value);
    return copied;
  }

  get env(): Readonly<Record<string, string>> {
    return { ...this.image.env, ...this.changes.env };
  }

  get workdir(): string {
    return this.changes.workdir ?? (this.image.workdir === '' ? '/' : this.image.workdir);
  }

  /** ENV goes before ARG. */
  valueOf = (name: string): string | undefined =>
    new Map(Object.entries(this.env)).get(name) ??
    this.args.get(name) ??
    (name === 'PATH' ? pathDefault : undefined);

  /** ARGs that no ENV stands before. */
  get variables(): Readonly<Record<string, string>> {
    const env = new Map(Object.entries(this.env));
    return Object.fromEntries([...this.args].filter(([name]) => !env.has(name)));
  }

  /** From here on the image is this one, which has the changes. */
  became(key: string, image: Image): void {
    this.key = key;
    this.image = image;
    this.changes = { env: {}, labels: {} };
    this.directories = [];
  }

  /** The key behind one step more, which does this. */
  keyBehind(step: unknown): string {
    const { key, changes, directories, shell } = this;
    return createHash('sha256')
      .update(JSON.stringify({ version: 1, key, changes, directories, shell, step }))
      .digest('hex');
  }

  get isChanged(): boolean {
    const { env, labels, ...rest } = this.changes;
    return (
      Object.keys(env).length +
        Object.keys(labels).length +
        Object.keys(rest).length +
        this.directories.length >
      0
    );
  }

  /** An instruction that only says something. False: it does something. */
  take(
    instruction: Instruction,
    {
      escape,
      globals,
      args,
    }: {
      readonly escape: string;
      readonly globals: Readonly<Record<string, string>>;
      readonly args: Readonly<Record<string, string>>;
    },
  ): boolean {
    const { keyword, text, line } = instruction;
    const how = { escape, valueOf: this.valueOf };
    const word = (): string => reading(line, () => readWord(text, how));
    switch (keyword) {
      case 'ENV':
        Object.assign(this.changes.env, this.#pairs(instruction, escape));
        return true;
      case 'LABEL':
        Object.assign(this.changes.labels, this.#pairs(instruction, escape));
        return true;
      case 'ARG':
        for (const each of reading(line, () => readWords(text, how))) {
          const { name, value = globals[name] ?? platformValue(name) } = argOf(each);
          const given = args[name] ?? value;
          if (given !== undefined) this.args.set(name, given);
        }
        return true;
      case 'USER':
        this.changes.user = word();
        return true;
      case 'WORKDIR':
        this.changes.workdir = absolute(this.workdir, word());
        this.directories = [...this.directories, this.changes.workdir];
        return true;
      case 'SHELL': {
        const shell = jsonWords(text);
        if (shell === undefined || shell.length === 0)
          throw new BuildProblem('dockerfile_invalid', 'SHELL takes a list of words in JSON', { line });
        this.shell = shell;
        return true;
      }
      case 'CMD':
        this.changes.cmd = jsonWords(text) ?? [...this.shell, text];
        this.#hasOwnCmd = true;
        return true;
      case 'ENTRYPOINT':
        this.changes.entrypoint = jsonWords(text) ?? [...this.shell, text];
        // What an image below says belongs to its own entrypoint.
        if (!this.#hasOwnCmd) this.changes.cmd = [];
        return true;
      default:
        return false;
    }
  }

  /** `A=1 B="x y"`, or in the old form `A all the rest`. */
  #pairs({ keyword, text, line }: Instruction, escape: string): Record<string, string> {
    const how = { escape, valueOf: this.valueOf };
    const [, name = '', rest = ''] = /^([^\s=]+)\s+([^]*)$/.exec(text) ?? [];
    if (name !== '') return { [name]: reading(line, () => readWord(rest, how)) };
    return Object.fromEntries(
      reading(line, () => readWords(text, how)).map((each) => {
        const pair = argOf(each);
        if (pair.value === undefined || pair.name === '')
          throw new BuildProblem('dockerfile_invalid', `${keyword} takes NAME=VALUE, not "${each}"`, {
            line,
          });
        return [pair.name, pair.value];
      }),
    );
  }
}

/** A path as it is meant at a place. Without `.` and `..`; one that ends with a slash still does. */
export function absolute(workdir: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith('/') ? path : `${workdir}/${path}`).split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  const isOpen = path.endsWith('/') || path === '.' || path.endsWith('/.');
  return `/${parts.join('/')}${isOpen && parts.length > 0 ? '/' : ''}`;
}
