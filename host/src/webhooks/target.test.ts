/** Which addresses a webhook is sent to, however they are written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { parseCidr } from '@squash/policy/address/cidr';
import { targetOf } from './target.ts';

const ranges = (...texts: readonly string[]) => texts.flatMap((text) => parseCidr(text) ?? []);

async function refusal(url: string, allowed: ReturnType<typeof ranges> = []): Promise<string> {
  try {
    const { address, port } = await targetOf(new URL(url), allowed);
    return `${address} ${port}`;
  } catch (error) {
    assert.ok(error instanceof AppError, String(error));
    return error.code;
  }
}

test('addresses that are not public are refused in every spelling', async () => {
  for (const host of [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '0.0.0.0',
    'localhost',
    'LOCALHOST.',
    'a.localhost',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '10.1.2.3',
    '[fd00::1]',
    '169.254.169.254',
    '[::ffff:a9fe:a9fe]',
    '100.100.100.200',
    '[fe80::1]',
    '198.18.0.1',
    '255.255.255.255',
  ]) {
    assert.equal(await refusal(`http://${host}/`), 'webhook_address_refused', host);
  }
  assert.equal(await refusal('https://8.8.8.8/hook'), '8.8.8.8 443');
  assert.equal(await refusal('http://[2606:4700::1111]:8080/'), '2606:4700::1111 8080');
});

test('a range of the operator opens what lies inside the kind of place that it is in', async () => {
  assert.equal(await refusal('http://127.0.0.1:81/', ranges('127.0.0.1')), '127.0.0.1 81');
  assert.equal(await refusal('http://localhost/', ranges('127.0.0.0/8')), '127.0.0.1 80');
  assert.equal(await refusal('http://10.1.2.3/', ranges('10.1.0.0/16')), '10.1.2.3 80');
  for (const [host, range] of [
    ['10.1.2.3', '0.0.0.0/0'],
    ['10.1.2.3', '10.2.0.0/16'],
    ['169.254.169.254', '169.254.0.0/16'],
    ['[::1]', '127.0.0.0/8'],
  ] as const) {
    assert.equal(await refusal(`http://${host}/`, ranges(range)), 'webhook_address_refused', host);
  }
});
