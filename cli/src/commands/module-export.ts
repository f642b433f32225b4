/** `squash module export`: a module as a file, and its manifest beside it as `import` and the daemon's own directory take them. */
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import type { ModuleDetails } from '@squash/contract/module';
import { modulePath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';
import { withProgress } from '../output/progress.ts';
import { refuseExisting, save, writeOut } from '../output/saved-file.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const [name = '', file = `${name}.squashfs`] = positionals;
  const replaces = flags.isSet('force');
  // Before either is written: one without the other would say something of another file.
  if (file !== '-' && !replaces) for (const each of [file, `${file}${manifestSuffix}`]) refuseExisting(each);
  const details = await client.get<ModuleDetails>(modulePath(name));
  const response = await client.open(modulePath(name, ['file']), {});
  const bytes = Number(response.headers.get('content-length') ?? 0);
  const body = withProgress(response.body(), { label: name, bytes });
  if (file === '-') return await writeOut(body);
  await save(body, file, replaces);
  const manifest = manifestOf(details);
  if (manifest !== undefined) {
    const text = `${JSON.stringify(manifest, null, 2)}\n`;
    await save(pieces(text), `${file}${manifestSuffix}`, replaces);
  }
  if (json) printJson({ name, file, size: bytes, sha256: details.sha256 });
  else printLine(`${file}  ${formatBytes(bytes)}`);
  return exitCodes.ok;
}

/** Undefined where the module has none: nobody has said what it is. */
function manifestOf(
  details: ModuleDetails,
): (Omit<ModuleManifest, 'squashfs_sha256'> & { readonly squashfs_sha256: string }) | undefined {
  const { name, built_at, builder, base, packages, provenance, sha256 } = details;
  if (built_at === null || builder === null) return undefined;
  return { schema: 1, name, built_at, builder, base, packages, squashfs_sha256: sha256, provenance };
}

async function* pieces(text: string): AsyncGenerator<Buffer, void, void> {
  yield await Promise.resolve(Buffer.from(text));
}
