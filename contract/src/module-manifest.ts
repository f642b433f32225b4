/**
 * The file beside a module, `NNN-name.squashfs.manifest.json`: what the module is made of and the digest it has.
 *
 * Who builds a module writes it; the layer store refuses a module whose digest is another. Unknown keys are kept
 * out of the way, not refused: other tools write such files too.
 */
import { z } from 'zod';
import { layerDigestSchema } from './ids.ts';

export const moduleManifestSchema = z.object({
  schema: z.literal(1),
  name: z.string().max(256),
  built_at: z.string().max(64).describe('RFC 3339, UTC; the day for a reproducible build'),
  builder: z.string().max(256),
  base: z.string().max(512).nullable().describe('`name@sha256:digest` of the module it is a difference to'),
  packages: z.array(z.string().max(512)).describe('`name=version`, the ones it adds to its base'),
  squashfs_sha256: layerDigestSchema,
  provenance: z
    .record(z.string().max(64), z.string().max(4_096))
    .optional()
    .describe('where it comes from: a distribution, a release, an image'),
});
export type ModuleManifest = z.infer<typeof moduleManifestSchema>;
