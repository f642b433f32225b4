/**
 * Identifiers and guest paths as branded types, each with the one parser that makes it.
 *
 * A value of these types has been checked; code that takes one does not check again. A `GuestPath` is
 * bytes inside a sandbox and can't be passed where a host path (plain `string`) is opened.
 */
import { z } from 'zod';

/** A sandbox's id. Seed alphabet; at most 64 characters so that it fits a host name and a cgroup name. */
export const sandboxIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/)
  .brand<'SandboxId'>();
export type SandboxId = z.infer<typeof sandboxIdSchema>;

/**
 * A sandbox's part of the host names of its ports, `<port>-<label>.localhost`: with the port in front it stays within the 63
 * characters of a DNS label.
 */
export const hostLabelSchema = z
  .string()
  .max(50)
  .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/)
  .brand<'HostLabel'>();
export type HostLabel = z.infer<typeof hostLabelSchema>;

/** Of a module's name and a snapshot's label: what file systems take, with room for our suffixes. */
export const nameCharsMax = 128;

/** A module's name without `.squashfs`. A leading dot is refused: it would hide the file or name a directory. */
export const moduleNameSchema = z
  .string()
  .max(nameCharsMax)
  .regex(/^(?!\.)[A-Za-z0-9_.-]+$/, {
    error: 'a module’s name has letters, digits, "_", "." and "-", no "." first',
  })
  .brand<'ModuleName'>();
export type ModuleName = z.infer<typeof moduleNameSchema>;

/** What virtual machines start from: built as other modules are, and no layer of a sandbox. */
export const vmModule = moduleNameSchema.parse('900-vmm');

/** A layer of an OCI image as a module: `oci-` and the SHA-256 of its tar, or of the chain of layers that it was made of. */
export function isImageLayer(module: ModuleName): boolean {
  return /^oci-[0-9a-f]{64}$/.test(module);
}

/** A snapshot's label: same alphabet as a module's name. */
export const snapshotLabelSchema = z
  .string()
  .max(nameCharsMax)
  .regex(/^(?!\.)[A-Za-z0-9_.-]+$/, {
    error: 'a snapshot’s label has letters, digits, "_", "." and "-", no "." first',
  })
  .brand<'SnapshotLabel'>();
export type SnapshotLabel = z.infer<typeof snapshotLabelSchema>;

/** Lower-case hex SHA-256 of a squashfs file: a layer's identity. */
export const layerDigestSchema = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .brand<'LayerDigest'>();
export type LayerDigest = z.infer<typeof layerDigestSchema>;

/** Absolute path inside a sandbox. */
export const guestPathSchema = z
  .string()
  .refine((path) => path.startsWith('/') && path.length <= 4096 && !path.includes('\0'))
  .brand<'GuestPath'>();
export type GuestPath = z.infer<typeof guestPathSchema>;
