/** What the daemon is started by, for `squash serve` and for whoever starts the daemon of boxes. */
import { join } from 'node:path';
import { launchProgram, programWords, projectDir } from './programs.ts';

/**
 * New objects get 16 MB from the beginning. What is made while the program starts is kept, nearly all of it, and a collection meanwhile copies it:
 * with 8 MB a start took a tenth more of the processor. In a burst many requests are under way at once, and each collection copies what they
 * hold: with 2 MB a create and its first command took a tenth more, with 32 as much as with 16. At rest `base/resting-heap.ts` gives the
 * room back (as much is resident after ten bursts with each).
 * What a collection copies is too little to share: helpers took a twelfth more of the processor for it.
 */
export const memoryFlags = ['--min-semi-space-size=16', '--max-semi-space-size=16', '--no-parallel-scavenge'];
/** Nobody gets a debugger into the daemon by a signal. */
const noInspector = '--disable-sigusr1';

/** Absolute paths. */
export interface EnterPlace {
  readonly dataDir: string;
  readonly runDir: string;
  readonly egressHostsFile?: string | undefined;
  readonly registries?: { readonly authFile: string | undefined };
  readonly firecracker?: { readonly path: string | undefined } | undefined;
}

export interface EnterCommand {
  readonly program: string;
  /** With the program's own name as the first. */
  readonly words: readonly string[];
}

/**
 * The words that run `command` inside the daemon's namespaces: with `keep` as a child that is started again where it
 * asks for it, else in place of whoever runs them.
 */
export function enterCommand(
  place: EnterPlace,
  command: readonly string[],
  verb: 'enter' | 'keep' = 'enter',
): EnterCommand {
  const program = launchProgram;
  const words = [program, verb, '--data', place.dataDir, '--run', place.runDir, '--app', projectDir];
  // The egress process is the daemon's child, and opens no more than it may.
  const read = place.egressHostsFile === undefined ? [] : ['--read', place.egressHostsFile];
  const login = place.registries?.authFile === undefined ? [] : ['--login', place.registries.authFile];
  const vmm = place.firecracker?.path === undefined ? [] : ['--vmm', place.firecracker.path];
  return { program, words: [...words, ...read, ...login, ...vmm, '--filter', 'node', '--', ...command] };
}

/** The daemon with its keeper, and what its environment has beside the settings. */
export function daemonCommand(
  place: EnterPlace,
): EnterCommand & { readonly env: Readonly<Record<string, string>> } {
  const node = [process.execPath, noInspector, ...memoryFlags, ...programWords('host/src/main.ts')];
  return {
    ...enterCommand(place, node, 'keep'),
    env: {
      // Without it Node loads its TypeScript parser at each start and keeps it: 25 MB and a tenth of a second. The
      // directory is the daemon's own; what lies there is executed.
      NODE_COMPILE_CACHE: join(place.runDir, 'compile'),
      // The daemon is held to its own files: the system's directory is none of them.
      SQLITE_TMPDIR: join(place.dataDir, 'tmp'),
    },
  };
}
