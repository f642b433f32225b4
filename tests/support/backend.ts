/** Which backend the tests' sandboxes have that ask for none: `squash test --only on-vm` runs files with microVMs. */
export const isOnVms = process.env['TEST_BACKEND'] === 'vm';
