/**
 * What the words of `squash run` mean: layers and a command, or a command alone, as one would type it without Squash. Pure but
 * for the look whether a script is there.
 */
import { statSync } from 'node:fs';

export interface RunWords {
  /** Undefined: those that fit the program. */
  readonly layers: string | undefined;
  readonly argv: readonly string[];
  /** Files of ours that the command names, relative. */
  readonly scripts: readonly string[];
}

/** As every module is called; no program is. */
const layerList = /^\d{3}-[^,/]+(?:,\d{3}-[^,/]+)*$/;

export const isLayerList = (word: string): boolean => layerList.test(word);

/** Programs whose first word that is no option is a file to be run, and the options that put a text in its place. */
const interpreters = /^(?:python|node|deno|bun|ruby|perl|php|lua|bash|sh|Rscript)[\d.]*$/;
const withoutScript = /^(?:-c|-e|-m|-p|-r|--eval|--print)$/;
/** To a shell `-e` is something else. */
const shellWithoutScript = /^-\w*c$/;

/** What the command runs in: a sandbox made of layers or of an image for it, or one that is there. */
export type RunPlace = 'layers' | 'image' | 'there';

export function readRunWords(
  positionals: readonly string[],
  rest: readonly string[],
  place: RunPlace,
): RunWords {
  const [first] = positionals;
  if (place !== 'there' && first !== undefined && isLayerList(first)) {
    return { layers: first, argv: rest, scripts: [] };
  }
  const argv = [...positionals, ...rest];
  if (place === 'there') return { layers: undefined, argv, scripts: [] };
  const script = scriptOf(argv);
  // Debian calls it by its version alone, an image as it likes.
  const program = argv[0] === 'python' && place === 'layers' ? ['python3', ...argv.slice(1)] : argv;
  return { layers: undefined, argv: program, scripts: script === undefined ? [] : [script] };
}

function scriptOf([program = '', ...words]: readonly string[]): string | undefined {
  if (program.startsWith('./')) return isFile(program) ? program : undefined;
  if (!interpreters.test(program)) return undefined;
  const isText = /^(?:ba)?sh$/.test(program) ? shellWithoutScript : withoutScript;
  const at = words.findIndex((word) => !word.startsWith('-'));
  const script = words[at];
  if (script === undefined || words.slice(0, at).some((word) => isText.test(word))) return undefined;
  // What is absolute may as well be a file of the sandbox.
  const isOurs = !script.startsWith('/') && !script.split('/').includes('..');
  return isOurs && isFile(script) ? script : undefined;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/**
 * The base, and the module that is called as the program is: `python3` and `100-python311`. Undefined where there is no base:
 * the daemon then says what is missing.
 */
export function fittingLayers(program: string, modules: readonly string[]): readonly string[] | undefined {
  const base =
    modules.find((name) => name === '000-base-alpine') ?? modules.find((name) => name.startsWith('000-'));
  if (base === undefined) return undefined;
  const stem = stemOf(program);
  const own = modules.findLast((name) => name !== base && stemOf(name.slice(4)) === stem);
  return own === undefined ? [base] : [base, own];
}

/** `python3.11` and `python311` are of one language; so is what comes with it. */
export function stemOf(name: string): string {
  const stem = name.replace(/[\d.]+(?:-.*)?$/, '');
  return { pip: 'python', ipython: 'python', npm: 'node', npx: 'node' }[stem] ?? stem;
}
