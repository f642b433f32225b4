/** Which backend the tests' sandboxes have that ask for none: `squash test --only on-vm` runs files with microVMs. */
export const isOnVms = process.env['TEST_BACKEND'] === 'vm';

/** The names of the modules that microVMs start from, among those that a daemon has. */
export const vmModules: readonly string[] = isOnVms ? ['900-vmm'] : [];
