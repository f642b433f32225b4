/** Which backend the tests' sandboxes have that ask for none: `squash test --only on-vm` runs files with microVMs. */
export const isOnVms = process.env['TEST_BACKEND'] === 'vm';

/** The names of the modules that microVMs start from, among those that a daemon has. */
export const vmModules: readonly string[] = isOnVms ? ['900-vmm'] : [];

/** Behind a command whose files shall be there after a power cut: what a microVM has not written out is in its memory alone. */
export const written = isOnVms ? ' && sync' : '';

/** Part of the command line of what the host sees while this command runs in a sandbox: of a microVM its monitor, and no command. */
export const seenAs = (command: string): string => (isOnVms ? 'qemu-system' : command);
