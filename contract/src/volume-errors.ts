/** The rows of the error catalogue (errors.ts) about volumes and what sandboxes have attached. */
export const volumeErrors = {
  volume_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no volume of this name or id',
    remedy: 'List the volumes: `squash volume ls`',
  },
  volume_exists: {
    status: 409,
    retry: 'never',
    summary: 'There is a volume of this name',
    remedy: 'Choose another name, or remove that volume first',
  },
  volume_in_use: {
    status: 409,
    retry: 'later',
    summary: 'The volume is attached: one sandbox may write, or several may read',
    remedy: 'Detach it from the sandboxes that `attached_to` of the volume names',
  },
  volume_limit: {
    status: 429,
    retry: 'later',
    summary: 'There are as many volumes as one daemon keeps',
    remedy: 'Remove volumes that are not needed',
  },
  mount_not_found: {
    status: 404,
    retry: 'never',
    summary: 'The sandbox has no mount of this id',
    remedy: 'List the mounts of the sandbox',
  },
  mount_exists: {
    status: 409,
    retry: 'never',
    summary: 'The sandbox has a mount at this path, or has the volume or directory already',
    remedy: 'Choose another path, or detach that mount first',
  },
  mount_limit: {
    status: 409,
    retry: 'never',
    summary: 'The sandbox has as many mounts as it may have',
    remedy: 'Detach what is not needed, or attach one directory that holds several',
  },
  mount_busy: {
    status: 409,
    retry: 'later',
    summary: 'Programs in the sandbox use the mount',
    remedy: 'End the commands that have files open or stand in it, then detach it; or destroy the sandbox',
  },
  mount_refused: {
    status: 409,
    retry: 'never',
    summary: 'Nothing can be attached at this path of the sandbox',
    remedy:
      'Name a directory, or a path where nothing is, with no link on the way; attach it while the sandbox is stopped, where the message says so',
  },
  host_directory_refused: {
    status: 403,
    retry: 'never',
    summary: 'A sandbox may not have this directory of the host',
    remedy: 'See the reason in `detail`; the operator’s host-directories.json says what is allowed',
  },
} as const;
