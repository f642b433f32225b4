/** The rows of the error catalogue (errors.ts) about sandboxes that are microVMs. */
export const vmErrors = {
  vm_unavailable: {
    status: 409,
    retry: 'never',
    summary: 'This host can not run a sandbox as a microVM',
    remedy: '`detail` says what is missing; `squash doctor` says what the host offers',
  },
  vm_unsupported: {
    status: 409,
    retry: 'never',
    summary: 'This can not be done with a sandbox that is a microVM',
    remedy: 'Do it with a sandbox of the backend "chroot"; docs/backends.md has what each of them can do',
  },
} as const;
