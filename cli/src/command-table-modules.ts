/** The rows of `command-table.ts` that concern modules. */
import type { CommandSpec } from './command.ts';
import { buildFlags } from './command-table-build.ts';

export const moduleCommands: readonly CommandSpec[] = [
  {
    name: 'module ls',
    group: 'layer',
    summary: 'list modules',
    positionals: [],
    flags: [{ name: 'quiet', short: 'q', summary: 'names only' }],
    load: () => import('./commands/module-ls.ts'),
  },
  {
    name: 'module import',
    group: 'layer',
    summary: 'add a squashfs file as a module',
    positionals: [{ name: 'file', kind: 'file' }],
    flags: [
      { name: 'name', value: 'NAME', summary: 'default: the file’s name without .squashfs' },
      { name: 'replace', summary: 'take the place of a module of this name' },
    ],
    notes:
      'The file may be - for standard input; then --name is needed. A name begins with three digits: NNN-name. A file FILE.manifest.json beside it goes with it.',
    load: () => import('./commands/module-import.ts'),
  },
  {
    name: 'module build',
    group: 'layer',
    summary: 'make a layer from a preset or a directory and add it; without a preset: list them',
    positionals: [
      { name: 'preset', kind: 'layerPreset', optional: true },
      { name: 'directory', kind: 'directory', optional: true },
      { name: 'name', kind: 'text', optional: true },
    ],
    flags: [
      { name: 'name', value: 'NAME', summary: 'default: the preset’s own' },
      { name: 'list', summary: 'list the presets: module, size, source, licence' },
      { name: 'version', value: 'VERSION', summary: 'another version than the preset’s, or Debian release' },
      { name: 'replace', summary: 'take the place of a module of this name' },
      {
        name: 'fresh',
        summary: 'build again what was built before, with today’s packages and newest versions',
      },
      { name: 'keep-owners', summary: 'from-dir: keep the files’ owners instead of giving them to root' },
    ],
    notes:
      'squash module build python; squash module build ./mine.json; squash module build from-dir ./tools 300-tools. SQUASH_PRESETS names a directory with presets of your own.',
    load: () => import('./commands/module-build.ts'),
  },
  {
    name: 'module from-oci',
    group: 'layer',
    summary: 'an image as one module: its layers merged, what is deleted in them left out',
    positionals: [
      { name: 'image', kind: 'image' },
      { name: 'name', kind: 'text', optional: true },
    ],
    flags: [
      { name: 'pick', value: 'TAG', summary: 'of several images in an archive, this one' },
      { name: 'replace', summary: 'take the place of a module of this name' },
    ],
    notes:
      'IMAGE is one that is here, one of a registry, or an archive or OCI layout: a path with a / in it, such as ./image.tar. What was no image here before is none afterwards. The name is 100- and the image’s unless given.',
    load: () => import('./commands/module-from-oci.ts'),
  },
  {
    name: 'module from-dockerfile',
    group: 'layer',
    summary: 'what a Dockerfile builds, as one module',
    positionals: [
      { name: 'context', kind: 'file' },
      { name: 'name', kind: 'text', optional: true },
    ],
    flags: [...buildFlags, { name: 'replace', summary: 'take the place of a module of this name' }],
    notes:
      'As squash build does it, with the files of the image below it in the module. The name is 100- and the context’s unless given.',
    load: () => import('./commands/module-from-dockerfile.ts'),
  },
  {
    name: 'module from-sandbox',
    group: 'layer',
    summary: 'what a sandbox has written on its modules, as a module',
    positionals: [
      { name: 'id', kind: 'sandbox' },
      { name: 'name', kind: 'text', optional: true },
    ],
    flags: [
      { name: 'snapshot', value: 'LABEL', summary: 'a snapshot that it has, instead of what it is now' },
      { name: 'replace', summary: 'take the place of a module of this name' },
    ],
    notes:
      'The name is 900-<id> unless given. It holds everything since the modules, restored snapshots included, and fits on these modules.',
    load: () => import('./commands/module-from-sandbox.ts'),
  },
  {
    name: 'module inspect',
    group: 'layer',
    summary: 'a module’s digest, what it was built of and on, and what its programs need',
    positionals: [{ name: 'name', kind: 'module' }],
    flags: [],
    load: () => import('./commands/module-inspect.ts'),
  },
  {
    name: 'module verify',
    group: 'layer',
    summary: 'read modules again and compare them with their digests; without a name: all',
    positionals: [{ name: 'name', kind: 'module', optional: true, repeats: true }],
    flags: [],
    load: () => import('./commands/module-verify.ts'),
  },
  {
    name: 'module export',
    group: 'layer',
    summary: 'a module as a squashfs file, with its manifest beside it',
    positionals: [
      { name: 'name', kind: 'module' },
      { name: 'file', kind: 'file', optional: true },
    ],
    flags: [{ name: 'force', short: 'f', summary: 'replace files of these names' }],
    notes:
      'The file is <name>.squashfs unless named, its manifest FILE.manifest.json; - is standard output, without a manifest.',
    load: () => import('./commands/module-export.ts'),
  },
  {
    name: 'module gc',
    group: 'layer',
    summary: 'remove unpacked layers that no sandbox stands on',
    positionals: [],
    flags: [{ name: 'dry-run', summary: 'tell what would go, and remove nothing' }],
    notes:
      'No module and no snapshot goes: what is wanted again is unpacked again, which takes that create or restore longer.',
    load: () => import('./commands/module-gc.ts'),
  },
  {
    name: 'module rm',
    group: 'layer',
    summary: 'remove modules that no sandbox uses',
    positionals: [{ name: 'name', kind: 'module', repeats: true }],
    flags: [],
    load: () => import('./commands/module-rm.ts'),
  },
];
