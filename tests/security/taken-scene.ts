/** A scene whose machines have a monitor that was taken over: its place is the attacker's, and no guest boots in it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packModule } from '../support/base-layer.ts';
import type { Answer } from '../support/daemon.ts';
import { takenVmm } from '../support/taken-vmm.ts';
import { attackTool, smallTool } from './tool.ts';
import type { UnderAttack, UnderAttackOptions } from './under-attack.ts';

/** Nobody waits longer for a liar, whose connection is begun anew once. */
const answerMsMax = 20_000;

/** `flood` and `early` name what they do before the guest is ready. */
const bootLies = String.raw`#!/bin/sh
case $(hostname) in
  flood) i=0; while [ $i -lt 400 ]; do printf '\033]0;owned\007\033[2J\033[31m\r\n%60000s'; i=$((i+1)); done; kill -9 $PPID ;;
  early) /attack/attack connect-path /dev/shm/v.sock_1; /attack/attack connect-path /dev/shm/v.sock_1; sleep 1 ;;
esac
`;

/** Its modules are made in this folder. */
export async function takenOptions(folder: string): Promise<UnderAttackOptions> {
  const { program } = await attackTool();
  const taken = join(folder, 'taken.squashfs');
  await takenVmm(taken, { files: { 'lies/boot': bootLies }, copies: { 'attack/attack': program } });
  const guest = join(folder, 'guest.squashfs');
  await packModule(guest, { 'guest/guest': await readFile(await smallTool('guest')) });
  return {
    // On KVM the VMM has its device.
    env: { SQUASH_BACKEND: 'vm', SQUASH_VM_ACCEL: 'tcg', SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32' },
    modules: { '900-vmm': taken, '060-guest': guest },
  };
}

export async function inTime(what: string, answer: Promise<Answer>): Promise<Answer> {
  const began = performance.now();
  const came = await answer;
  const took = performance.now() - began;
  assert.ok(took < answerMsMax, `${what} took ${took} ms: ${came.text}`);
  return came;
}

export function expectNoSecret({ secrets }: UnderAttack, text: string): void {
  for (const secret of secrets) assert.ok(!text.includes(secret), text);
}
