/**
 * What a preset is: one JSON file that says what a layer is made of. Those of the project lie in `images/presets/`, a user's own
 * where he likes (`preset-files.ts`); all are read by this one schema, and nothing behind it checks them again.
 *
 * A layer on a base holds what installing its packages adds to the base, the package database included. Two
 * such layers stacked on one another both work, but dpkg inside then only knows the packages of the upper one:
 * its database is one file. `docs/modules.md` says so.
 */
import { z } from 'zod';
import { Failure } from '@squash/base/failure';

export const architectures = ['amd64', 'arm64'] as const;
export type Architecture = (typeof architectures)[number];

const nameSchema = z.string().regex(/^[a-z0-9][a-z0-9.+-]{0,63}$/, {
  error: 'a name has lower-case letters, digits, ".", "+" and "-", 64 at most',
});
const versionSchema = z.string().regex(/^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$/, {
  error: 'a version has letters, digits, ".", "+", "_" and "-", 64 at most',
});

/** Where something lies in the layer. */
const placeSchema = z
  .string()
  .max(400)
  .refine((path) => path.split('/').every((part) => part !== '' && part !== '.' && part !== '..'), {
    error: 'a path in the layer has no "/" at its ends, no "." and no ".."',
  })
  .refine((path) => !/[^ -\uffff]|\\/.test(path), {
    error: 'a path has neither control characters nor "\\"',
  });
/** The same, or the root of the layer. */
const folderSchema = z.union([z.literal(''), placeSchema]);

const textSchema = z.string().max(1_048_576);
const perArchitecture = <T extends z.ZodType>(value: T) =>
  z
    .strictObject({ amd64: value.optional(), arm64: value.optional() })
    .refine((each) => Object.keys(each).length > 0, { error: 'at least one of amd64 and arm64' });

/** What is taken out of an archive, and where it goes. */
const placed = {
  /** Folders that go from the front of each name; what lies less deep is left out. */
  strip: z.int().min(0).max(8).default(0),
  into: folderSchema.default(''),
  /** Of the names as the archive has them: only these, and what is below them. `*` is any one folder or file. */
  only: z.array(placeSchema).max(256).optional(),
};

const debianPackagesSchema = z
  .array(z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/, { error: 'no name of a Debian package' }))
  .min(1)
  .max(256);
/**
 * Packages that others depend on and nothing here needs, with the version that the dependency asks for: apt is told that
 * they are installed. To install one later brings the real one.
 */
const withoutSchema = z.record(
  z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/),
  z.string().regex(/^[0-9][0-9A-Za-z.+:~-]*$/),
);
const debianSource = z.strictObject({
  kind: z.literal('debian'),
  packages: debianPackagesSchema,
  without: withoutSchema.default({}),
});

const releaseSchema = z.string().regex(/^[a-z]+(?:-[a-z]+)*$/, { error: 'no name of a Debian release' });
/** Packages that are unpacked and not installed: no script runs, and there is no package database. */
const unpackedPackages = {
  /** Debian's, as `trixie` or `trixie-backports`. */
  release: releaseSchema,
  /** With everything that they depend on. */
  packages: perArchitecture(debianPackagesSchema),
  without: withoutSchema.default({}),
};
const debSource = z.strictObject({ kind: z.literal('deb'), ...unpackedPackages, ...placed });
/** Becomes `boot/vmlinuz`, the same unpacked as `boot/vmlinux`, and `boot/modules/NN-name.ko`. */
const kernelSource = z.strictObject({
  kind: z.literal('kernel'),
  ...unpackedPackages,
  /** Those that a guest loads at its start; what they need comes along. */
  modules: z.array(z.string().regex(/^[a-z0-9][a-z0-9_-]*$/)).max(64),
  /** Those whose kernel can be asked for instead, where not every one has the modules and is packed as it is unpacked here. */
  releases: z.array(releaseSchema).min(1).max(16).optional(),
});

const npmSource = z.strictObject({
  kind: z.literal('npm'),
  version: versionSchema,
  packages: perArchitecture(
    z.strictObject({
      name: z
        .string()
        .regex(/^(?:@[a-z0-9._-]+\/)?[a-z0-9][a-z0-9._-]*$/, { error: 'no name of an npm package' }),
      integrity: z
        .string()
        .regex(/^sha512-[A-Za-z0-9+/]{86}==$/, { error: 'an integrity as npm writes it: sha512-…' }),
    }),
  ),
  ...placed,
});

const templateSchema = z.string().max(400);
const archiveSource = z.strictObject({
  kind: z.literal('archive'),
  /** `SQUASH_MIRROR_<this>` stands in for `url`. */
  mirror: z
    .string()
    .regex(/^[A-Z][A-Z0-9]{0,31}$/, { error: 'a mirror’s word has capital letters and digits' }),
  url: z.url({ protocol: /^https?$/, error: 'url: an address with http:// or https://' }),
  /** A whole one, the beginning of one (`3.12`: the last of its line), or `newest`. */
  version: versionSchema,
  /** Other words for versions: `noble`. */
  version_names: z.record(nameSchema, versionSchema).default({}),
  /** What upstream calls each: `{arch}`. */
  architectures: perArchitecture(z.string().regex(/^[A-Za-z0-9_-]{1,32}$/)),
  /** Below `url`. */
  folder: templateSchema.default(''),
  /** `{version}`, `{patch}` (the rest of a version that was only begun), `{branch}` (its first two parts), `{arch}`. */
  file: templateSchema.min(1),
  /** A page that names the files there are, below `url`; not needed where the checksums name them. */
  listing: templateSchema.optional(),
  checksum: z.discriminatedUnion('kind', [
    z.strictObject({
      kind: z.literal('fixed'),
      sha256: perArchitecture(z.string().regex(/^[0-9a-f]{64}$/, { error: 'a SHA-256 in hexadecimal' })),
    }),
    z.strictObject({
      /** What upstream publishes beside the archive. It is as good as the connection: https alone. */
      kind: z.literal('published'),
      /** Below `url`, or a whole address. */
      at: templateSchema.min(1),
      /** Below a mirror, where `at` is a whole address. */
      on_mirror: templateSchema.optional(),
    }),
  ]),
  /** `program`: no archive, but the program itself, whose place `into` is. */
  format: z.enum(['archive', 'program']).default('archive'),
  /** A system's root keeps its owners and set-id programs; everything else becomes root's. */
  owners: z.enum(['root', 'archive']).default('root'),
  ...placed,
});

const apkSource = z.strictObject({
  kind: z.literal('apk'),
  /** Alpine's release: `3.21`. */
  version: versionSchema,
  repository: z.enum(['main', 'community']).default('main'),
  package: z.string().regex(/^[a-z0-9][a-z0-9+._-]*$/, { error: 'no name of a package of Alpine' }),
  ...placed,
});

const sourceSchema = z.discriminatedUnion('kind', [
  debianSource,
  debSource,
  kernelSource,
  npmSource,
  apkSource,
  archiveSource,
]);

export const presetSchema = z
  .strictObject({
    schema: z.literal(1),
    name: nameSchema,
    /** Other names of the same. */
    aliases: z.array(nameSchema).max(16).default([]),
    /** Three digits: where the layer stands in a stack. */
    prefix: z.string().regex(/^\d{3}$/, { error: 'three digits' }),
    /** The module's name without its prefix; `{version}` is taken from `versioned_by`. */
    module: z.string().regex(/^[a-z0-9](?:[a-z0-9.-]|\{version\})*$/, {
      error: 'lower-case letters, digits, ".", "-" and {version}',
    }),
    /** A Debian package, or else the first other source: the pattern's groups are what `{version}` becomes. */
    versioned_by: z
      .strictObject({
        package: z.string().optional(),
        pattern: z.string().max(100).refine(isPattern, { error: 'no regular expression' }),
      })
      .optional(),
    /** Another preset, which its Debian packages are installed into. */
    base: nameSchema.optional(),
    sources: z.array(sourceSchema).min(1).max(8),
    /** Written over what the sources bring: a text, or a file beside the preset. `{codename}` becomes the release's name. */
    files: z.record(placeSchema, z.union([textSchema, z.strictObject({ from: placeSchema })])).default({}),
    /** Symbolic links, by their place. */
    links: z.record(placeSchema, z.string().min(1).max(400)).default({}),
    /** Files of the sources that are programs, whatever the archive says. */
    executables: z.array(placeSchema).max(256).default([]),
    /** Folders that are there in any case. */
    directories: z.array(placeSchema).max(64).optional(),
    /** Programs: shared libraries that none of them needs are left out. */
    libraries_of: z.array(placeSchema).max(64).optional(),
    /** Files and folders of archives and npm packages that do not become part of the layer. */
    leave_out: z.array(placeSchema).max(256).default([]),
    /** About what the layer takes; four times as much is refused. */
    size: z.strictObject({
      squashfs_mb: z.number().positive().max(4_096),
      unpacked_mb: z.number().positive().max(16_384),
    }),
    licence: z.string().min(1).max(200),
    summary: z.string().min(1).max(200),
  })
  .superRefine((preset, context) => {
    const complain = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    const debian = preset.sources.filter(({ kind }) => kind === 'debian').length;
    if (debian > 1) complain('sources', 'one source of Debian packages at most');
    if (debian === 0 && preset.base !== undefined)
      complain('base', 'only Debian packages are installed into a base; another source stands by itself');
    if (preset.module.includes('{version}') !== (preset.versioned_by !== undefined))
      complain('versioned_by', 'belongs to a module with {version} in its name, and to no other');
  });

export type Preset = z.infer<typeof presetSchema>;
export type Source = Preset['sources'][number];
export type DebianSource = z.infer<typeof debianSource>;
export type DebSource = z.infer<typeof debSource>;
export type KernelSource = z.infer<typeof kernelSource>;
export type ApkSource = z.infer<typeof apkSource>;
export type NpmSource = z.infer<typeof npmSource>;
export type ArchiveSource = z.infer<typeof archiveSource>;

function isPattern(text: string): boolean {
  try {
    return new RegExp(text).source !== '';
  } catch {
    return false;
  }
}

/** @param where the file, for the sentence. @throws with the field that is wrong */
export function parsePreset(text: string, where: string): Preset {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Failure('preset_invalid', `preset "${where}" is not JSON: ${why}`, { cause });
  }
  const parsed = presetSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const said = parsed.error.issues.slice(0, 5).map(({ path, message }) => {
    const field = path.map(String).join('.');
    return field === '' ? message : `"${field}": ${message}`;
  });
  throw new Failure('preset_invalid', `preset "${where}" is not valid: ${said.join('; ')}`);
}

export function debianSourceOf({ sources }: Preset): DebianSource | undefined {
  return sources.find((source) => source.kind === 'debian');
}

/**
 * @param versions of Debian's packages by name, and of the first other source as an empty name
 * @throws when the package is not among the installed ones: the preset and its packages disagree
 */
export function moduleName(preset: Preset, versions: ReadonlyMap<string, string>): string {
  const { versioned_by: versionedBy } = preset;
  if (versionedBy === undefined) return `${preset.prefix}-${preset.module}`;
  const version = versions.get(versionedBy.package ?? '')?.replace(/^\d+:/, '');
  const groups = version === undefined ? null : new RegExp(versionedBy.pattern).exec(version);
  if (groups === null) {
    throw new Failure(
      'preset_wrong',
      `preset "${preset.name}": ${versionedBy.package ?? 'its source'} has no version like ${versionedBy.pattern} (${version ?? 'none'})`,
    );
  }
  return `${preset.prefix}-${preset.module.replace('{version}', groups.slice(1).join(''))}`;
}
