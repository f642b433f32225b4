/** What isolates a sandbox from the host. */
import { z } from 'zod';

/** `chroot`: namespaces of the host’s kernel (the name is the original’s). `vm`: a kernel of its own, behind a hypervisor. */
export const backends = ['chroot', 'vm'] as const;
export type Backend = (typeof backends)[number];

export const backendSchema = z.enum(backends, { error: `backend: one of ${backends.join(', ')}` });
