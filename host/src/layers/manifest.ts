/** The manifest beside a module: read to verify the module, written when one is imported. */
import { open, rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import type { LayerDigest, ModuleName } from '@squash/contract/ids';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { type ModuleManifest, moduleManifestSchema } from '@squash/contract/module-manifest';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { errorText } from '@squash/base/bug';

/** A list of a few thousand packages is far below. */
const manifestBytesMax = 1_048_576;

/** undefined where there is none: then the file's own digest is all there is. @throws layer_corrupt */
export async function readManifest(
  modulePath: string,
  name: ModuleName,
): Promise<ModuleManifest | undefined> {
  const text = await readSmall(`${modulePath}${manifestSuffix}`);
  if (text === undefined) return undefined;
  try {
    return moduleManifestSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new AppError(
      'layer_corrupt',
      `Cannot use module "${name}": its manifest is malformed (${errorText(cause)}); remove "${name}.squashfs${manifestSuffix}" to use the module without it`,
      { cause },
    );
  }
}

async function readSmall(path: string): Promise<string | undefined> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { bytesRead, buffer } = await handle.read(
      Buffer.alloc(manifestBytesMax + 1),
      0,
      manifestBytesMax + 1,
      0,
    );
    return bytesRead > manifestBytesMax ? '' : buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** What an import knows of a module: from now on a changed file is refused. */
export function manifestOfImport(module: {
  readonly name: ModuleName;
  readonly digest: LayerDigest;
  readonly importedAt: string;
}): ModuleManifest {
  return {
    schema: 1,
    name: module.name,
    built_at: module.importedAt,
    builder: 'squash module import',
    base: null,
    packages: [],
    squashfs_sha256: module.digest,
  };
}

/** @throws invalid_request for one that could not be read again */
export async function writeManifest(modulePath: string, manifest: ModuleManifest): Promise<void> {
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (Buffer.byteLength(text) > manifestBytesMax) {
    throw new AppError('invalid_request', `The manifest is longer than ${manifestBytesMax} bytes`);
  }
  await writeFileAtomic(`${modulePath}${manifestSuffix}`, text, 0o644);
}

export async function removeManifest(modulePath: string): Promise<void> {
  await rm(`${modulePath}${manifestSuffix}`, { force: true });
}
