/** The rows of `command-table.ts` that concern OCI images. */
import type { CommandSpec } from './command.ts';

export const imageCommands: readonly CommandSpec[] = [
  {
    name: 'image pull',
    group: 'layer',
    summary: 'have an image of a registry here, such as python:3.12-slim',
    positionals: [{ name: 'image', kind: 'image' }],
    flags: [{ name: 'again', summary: 'ask the registry even if it is here: a tag may name another by now' }],
    notes:
      'squash create --image NAME pulls what is not here. Registries’ credentials: SQUASH_REGISTRY_AUTH_FILE.',
    load: () => import('./commands/image-pull.ts'),
  },
  {
    name: 'image import',
    group: 'layer',
    summary: 'add an image from a docker-archive or an OCI layout, a tar file or a directory',
    positionals: [{ name: 'file', kind: 'file' }],
    flags: [
      { name: 'name', value: 'NAME', summary: 'what it is to be called; default: as the archive calls it' },
      { name: 'pick', value: 'TAG', summary: 'of several images in it, this one' },
    ],
    notes:
      'As podman save, docker save and skopeo copy write it. The file may be - for standard input; a directory is an OCI layout.',
    load: () => import('./commands/image-import.ts'),
  },
  {
    name: 'image commit',
    group: 'layer',
    summary: 'make an image of a sandbox: what it was made of, and what was written in it as one more layer',
    positionals: [
      { name: 'id', kind: 'sandbox' },
      { name: 'image', kind: 'image' },
    ],
    flags: [
      { name: 'snapshot', value: 'LABEL', summary: 'a snapshot that it has, instead of what it is now' },
      {
        name: 'env',
        short: 'e',
        value: 'NAME=VALUE',
        repeats: true,
        summary: 'set a variable of its commands',
      },
      { name: 'label', value: 'KEY[=VALUE]', repeats: true, summary: 'set a label' },
      { name: 'user', short: 'u', value: 'USER', summary: 'as whom its commands run' },
      { name: 'workdir', short: 'w', value: 'PATH', summary: 'where its commands start' },
      { name: 'entrypoint', value: 'JSON', summary: 'its command’s first words, as ["words"]' },
      { name: 'cmd', value: 'JSON', summary: 'the others, as ["words"]' },
    ],
    notes:
      'What is not set is as in the image that the sandbox was made from. A name that is taken here is given to the new one.',
    load: () => import('./commands/image-commit.ts'),
  },
  {
    name: 'image ls',
    group: 'layer',
    summary: 'list images',
    positionals: [],
    flags: [
      { name: 'quiet', short: 'q', summary: 'names only' },
      { name: 'all', short: 'a', summary: 'with the steps of builds' },
    ],
    load: () => import('./commands/image-ls.ts'),
  },
  {
    name: 'image inspect',
    group: 'layer',
    summary: 'an image’s digests, its layers, and what commands have from it',
    positionals: [{ name: 'image', kind: 'image' }],
    flags: [],
    load: () => import('./commands/image-inspect.ts'),
  },
  {
    name: 'image rm',
    group: 'layer',
    summary: 'remove images; sandboxes that were made from one keep what they need',
    positionals: [{ name: 'image', kind: 'image', repeats: true }],
    flags: [],
    load: () => import('./commands/image-rm.ts'),
  },
];
