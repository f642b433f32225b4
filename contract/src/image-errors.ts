/** The rows of the error catalogue (errors.ts) about OCI images and registries. */
export const imageErrors = {
  image_not_found: {
    status: 404,
    retry: 'after-change',
    summary: 'No image has this name',
    remedy: 'List what is here: `squash image ls`; have it pulled by who may: `squash image pull`',
  },
  image_invalid: {
    status: 422,
    retry: 'never',
    summary: 'The image is malformed, or is not what its digests say',
    remedy: 'Have it built or saved again',
  },
  image_unsupported: {
    status: 422,
    retry: 'never',
    summary: 'The image has a form or is for a machine that Squash does not run',
    remedy: 'Take one for this processor, in the form of OCI or Docker schema 2',
  },
  registry_unavailable: {
    status: 503,
    retry: 'later',
    summary: 'The registry does not answer, or answers with what is no answer',
    remedy: 'Try again; whether the host reaches it says `detail`',
  },
  registry_denied: {
    status: 403,
    retry: 'after-change',
    summary: 'The registry refuses: it knows no such image, or not to this caller',
    remedy: 'Check the name; log in by `SQUASH_REGISTRY_AUTH_FILE`',
  },
  registry_credentials_unreadable: {
    status: 503,
    retry: 'after-change',
    summary: 'The file that SQUASH_REGISTRY_AUTH_FILE names can’t be read or understood',
    remedy: 'Make it readable for who started the daemon, in the form of `docker login`’s config.json',
  },
} as const;
