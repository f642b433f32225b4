/**
 * Names of images, as container tools write them: `python:3.12-slim`, `ghcr.io/owner/name@sha256:…`. What is left out is filled in as
 * they do: the registry is docker.io, its official images lie in `library/`, the tag is `latest`.
 */
import { z } from 'zod';

const nameCharsMax = 255;
const host = /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?$/;
const part = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const tag = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
export const digestPattern = /^sha256:[0-9a-f]{64}$/;

export interface ImageReference {
  /** With its port, as it is asked for: `docker.io`, `localhost:5000`. */
  readonly registry: string;
  /** Without the registry: `library/python`. */
  readonly repository: string;
  /** What is asked of the registry: a tag, or a digest where one is named. */
  readonly version: string;
  readonly digest: string | undefined;
  /** All of it, nothing left out: what the image is called here. */
  readonly name: string;
}

/** Undefined where it is none. */
export function parseImageReference(text: string): ImageReference | undefined {
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !digestPattern.test(digest)) return undefined;
  const rest = at < 0 ? text : text.slice(0, at);
  // A colon behind the last slash is a tag's, one before it a port's.
  const colon = rest.indexOf(':', rest.lastIndexOf('/') + 1);
  const tagged = colon < 0 ? undefined : rest.slice(colon + 1);
  if (tagged !== undefined && !tag.test(tagged)) return undefined;
  const { registry, path } = registryOf(colon < 0 ? rest : rest.slice(0, colon));
  const repository = registry === 'docker.io' && !path.includes('/') ? `library/${path}` : path;
  if (
    !host.test(registry) ||
    !URL.canParse(`https://${registry}`) ||
    repository.length > nameCharsMax ||
    !repository.split('/').every((each) => part.test(each))
  )
    return undefined;
  // A digest says more than a tag that is there as well.
  const version = digest ?? tagged ?? 'latest';
  const name = `${registry}/${repository}${digest === undefined ? ':' : '@'}${version}`;
  return { registry, repository, version, digest, name };
}

/** Whether it is what `squash build` keeps of a step; no registry is of that name. */
export function isBuildStep(name: string): boolean {
  return name.startsWith('squash.build/');
}

/** What stands before the first slash is a host where it could be none of a repository's parts. */
function registryOf(text: string): { readonly registry: string; readonly path: string } {
  const slash = text.indexOf('/');
  const first = slash < 0 ? '' : text.slice(0, slash);
  if (first !== 'localhost' && !/[.:[]/.test(first)) return { registry: 'docker.io', path: text };
  const registry = first === 'index.docker.io' ? 'docker.io' : first.toLowerCase();
  return { registry, path: text.slice(slash + 1) };
}

export const imageReferenceSchema = z
  .string()
  .max(512)
  .transform((text, context) => {
    const parsed = parseImageReference(text);
    if (parsed !== undefined) return parsed;
    context.addIssue({
      code: 'custom',
      message: 'no name of an image: [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], in lower case but for the tag',
    });
    return z.NEVER;
  });
