/** The rows of the error catalogue (errors.ts) about modules. */
export const moduleErrors = {
  module_not_found: {
    status: 400,
    nativeStatus: 404,
    retry: 'after-change',
    summary: 'No module has this name',
    remedy: 'List what there is: `squash module ls`; import it or build it',
  },
  module_exists: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'A module with this name and other content exists',
    remedy: 'Choose another name, or import with `replace=true`',
  },
  module_invalid: {
    status: 422,
    retry: 'never',
    summary: 'The file is no readable squashfs',
    remedy: 'Send a whole squashfs file made by mksquashfs',
  },
  module_in_use: {
    status: 409,
    retry: 'later',
    summary: 'A sandbox is built on this module',
    remedy: 'Destroy the sandboxes that are stacked from it first',
  },
  module_incompatible: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'The programs of a module can’t run on the others: they are of another C library or processor',
    remedy:
      'Stack it on a base with that C library (`squash module inspect` shows it), or take a module that was built for this base',
  },
  module_active: {
    status: 400,
    nativeStatus: 409,
    retry: 'never',
    summary: 'The module is already part of the sandbox',
    remedy: 'Nothing is to be done: the sandbox has it',
  },
} as const;
