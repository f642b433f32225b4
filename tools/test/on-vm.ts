/**
 * `on-vm`: files of other suites once more, with the same assertions, where a sandbox that asks for no backend is a microVM. A boot is
 * emulated where KVM is missing and takes seconds: a sample, unless all is wanted or files are named.
 */
import type { Machine } from './allowed-skips.ts';
import { prepareLayers } from './layers.ts';
import { runFiles } from './run-files.ts';
import { filesOf, type Suite } from './suites.ts';
import { emptyTally, type Tally } from './tally.ts';

/** Those that try much with few VMs. */
const sample = ['tests/e2e/files.test.ts', 'tests/e2e/terminal.test.ts'];

/** Files with no sandbox that could be a microVM, and why. */
const others: readonly (readonly [RegExp, string])[] = [[/\/(?:box|srt)[-.]/, 'their root is the host’s']];

const minute = 60_000;

const onVm: Suite = {
  name: 'on-vm',
  patterns: ['tests/{e2e,egress,security,faults}/*.test.ts'],
  filesAtOnce: 2,
  fileMsMax: 10 * minute,
  fileMsMaxLong: 60 * minute,
};

export async function runOnVms(
  { isAll, patterns }: { readonly isAll: boolean; readonly patterns: readonly string[] },
  machine: Machine,
): Promise<Tally> {
  const files = filesOf(onVm, patterns).filter((file) =>
    isAll ? !others.some(([names]) => names.test(file)) : sample.includes(file),
  );
  if (files.length === 0) return emptyTally;
  // Its module is every file's.
  await prepareLayers(['tests/e2e/microvm.test.ts', ...files]);
  process.env['TEST_BACKEND'] = 'vm';
  process.env['TEST_PATIENCE'] = '5';
  try {
    return await runFiles(onVm, files, { ...machine, isOnVms: true });
  } finally {
    delete process.env['TEST_BACKEND'];
    delete process.env['TEST_PATIENCE'];
  }
}
