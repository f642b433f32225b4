/**
 * Who may have which of a sandbox's own secrets, as its file says it: names and hosts are shown, values are not. Read each
 * time it is asked, which is when somebody looks.
 */
import type { SandboxId } from '@squash/contract/ids';
import { ownSecretsPath, readSecretsFile, SecretsFileError } from '@squash/installation/secrets-file';

/** Empty where the file can't be used: why, the egress process says. */
export function ownSecretHosts(dataDir: string, id: SandboxId): Readonly<Record<string, readonly string[]>> {
  try {
    const { secrets } = readSecretsFile(ownSecretsPath(dataDir, id)).file;
    return Object.fromEntries(
      Object.entries(secrets).map(([name, { allowed_hosts: hosts }]) => [name, hosts]),
    );
  } catch (error) {
    if (!(error instanceof SecretsFileError)) throw error;
    return {};
  }
}
