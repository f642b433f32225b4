/**
 * The layers of a run: finds the files, reads what they extend, and asks whether the project's is trusted.
 *
 * What a newcomer would get wrong: the file that `--policy` names is a layer of the person's own, wherever it lies, because he
 * named it. The project's file is what lies in the repository and nobody named.
 */
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readAnswers } from './answers.ts';
import { type BundleName, bundleNames, bundles } from './bundles.ts';
import { parseDocument } from './document.ts';
import { checkPolicy, fileLimits, type PolicyFile } from './file-schema.ts';
import { findPolicyFiles, type FoundFile, readOwnFile } from './files.ts';
import type { Layer, Part } from './layers.ts';
import type { PolicyPlaces } from '../policy-places.ts';
import { PolicyProblem, placeIn } from '../policy-problem.ts';
import { isTrusted, readTrust, trustFile } from './trust.ts';

/** What the flags of a run say, as a policy. */
export interface CommandLine {
  /** Of `--policy`. */
  readonly files: readonly string[];
  readonly flags: PolicyFile | undefined;
  /** To compare a file with others: the user's and the project's are not looked for. */
  readonly isAlone?: boolean;
  /** Where the repository may be written, what git keeps of it may be, too. */
  readonly isGitWritten?: boolean;
}

export interface Loaded {
  readonly layers: readonly Layer[];
  readonly files: readonly FoundFile[];
  /** The project's file, where there is one. */
  readonly project: { readonly file: FoundFile; readonly isTrusted: boolean } | undefined;
}

const fileOrigins = ['managed', 'user', 'project'] as const;

/** @throws PolicyProblem */
export function loadLayers(places: PolicyPlaces, { files, flags, isAlone = false }: CommandLine): Loaded {
  const found = findPolicyFiles(places).filter(({ origin }) => !isAlone || origin === 'managed');
  const projectFile = found.find(({ origin }) => origin === 'project');
  const project = projectFile && {
    file: projectFile,
    isTrusted: isTrusted(readTrust(trustFile(places.state)), projectFile.path, projectFile.sha256),
  };
  const named = files.map((path) => readOwnFile(path, 'command line'));
  const answers = isAlone ? undefined : readAnswers(places);
  // What was answered is a part of the person's own layer.
  const present = answers === undefined ? found : [...found, answers];
  const layers = [
    ...fileOrigins
      .map(
        (origin): Layer => ({
          origin,
          isTrusted: origin !== 'project' || project?.isTrusted === true,
          parts: present.filter((file) => file.origin === origin).flatMap(partsOf),
        }),
      )
      .filter(({ parts }) => parts.length > 0),
    commandLineLayer(named, flags),
  ];
  return { layers, files: [...present, ...named], project };
}

function commandLineLayer(named: readonly FoundFile[], flags: PolicyFile | undefined): Layer {
  const ofFlags = flags === undefined ? [] : [{ policy: flags, file: 'flags', lineOf: noLine }];
  return { origin: 'command line', isTrusted: true, parts: [...named.flatMap(partsOf), ...ofFlags] };
}

function partsOf(file: FoundFile): readonly Part[] {
  return extended(file, [resolved(file.path)]);
}

/** @param chain the files that lead to this one, itself last: a file that stands in it twice would never end */
function extended(file: FoundFile, chain: readonly string[]): readonly Part[] {
  const document = parseDocument(file.text, file.format, file.path);
  const policy = checkPolicy(document, file.path);
  const { lineOf } = document;
  const complain = (path: readonly PropertyKey[], what: string): never => {
    throw new PolicyProblem([`${placeIn(file.path, lineOf(path))}: ${what}`]);
  };
  if (policy.forbid !== undefined && file.origin !== 'managed')
    complain(['forbid'], '"forbid" stands in the managed file only');
  const parts = (policy.extends ?? []).flatMap((word, at): readonly Part[] => {
    const path = ['extends', at];
    if (word.startsWith('builtin:')) {
      const name = bundleNames.find((each) => word === `builtin:${each}`);
      if (name === undefined)
        return complain(path, `"${word}" is unknown: there are builtin:${bundleNames.join(', builtin:')}`);
      return [bundlePart(name)];
    }
    if (file.origin !== 'user' && file.origin !== 'command line')
      return complain(
        path,
        `"${word}": other files are extended by your own only; here stands "builtin:NAME"`,
      );
    if (!/^\.{1,2}\/.*\.(?:toml|jsonc)$/.test(word))
      return complain(path, `"${word}" is neither "builtin:NAME" nor a path such as "./team.toml"`);
    if (chain.length >= fileLimits.extendsDepthMax)
      return complain(path, `more than ${fileLimits.extendsDepthMax} files that extend each other`);
    const target = resolved(join(dirname(resolved(file.path)), word));
    if (chain.includes(target)) return complain(path, `"${word}" leads back to this file`);
    return extended(readOwnFile(target, file.origin), [...chain, target]);
  });
  const all = [...parts, { policy, file: file.path, lineOf }];
  // Each file may extend sixteen: without a bound on their sum eight levels of them would be billions.
  if (all.length > 64) complain(['extends'], 'it extends more than 64 files');
  return all;
}

function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // The error of opening it says what is wrong.
    return path;
  }
}

const noLine = (): undefined => undefined;

function bundlePart(name: BundleName): Part {
  const { fs, net, env, caches } = bundles[name];
  const policy: PolicyFile = {
    version: 1,
    ...(fs !== undefined && { fs: { ...fs } }),
    ...(net !== undefined && { net: { allow: net, deny: [], ask: [] } }),
    ...(env !== undefined && { env: { pass: [...env] } }),
    ...(caches !== undefined && { caches: { ...caches } }),
  };
  return { policy, file: `builtin:${name}`, lineOf: noLine };
}
