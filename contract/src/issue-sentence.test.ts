/** Refusals of requests name the field, whoever words them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { z } from 'zod';
import { actionRequestSchema } from './actions.ts';
import { issueSentence } from './issue-sentence.ts';
import { policySchema } from './policy.ts';
import { ownSecretsSchema, secretChangeSchema } from './secrets.ts';

function sentence(schema: z.ZodType, value: unknown): string {
  const parsed = schema.safeParse(value, { error: issueSentence });
  return parsed.success ? 'taken' : (parsed.error.issues[0]?.message ?? '');
}

test('issueSentence names the place and what may stand there', () => {
  const allowOne =
    'allow[1]: a rule has "to" (a destination or a list of them) and may have "ports", "methods", "paths" and "upgrades", each a list';
  const table: readonly (readonly [z.ZodType, unknown, string])[] = [
    [secretChangeSchema, { value: 'short' }, 'value must have at least 8 characters'],
    [secretChangeSchema, { value: 'x'.repeat(9000) }, 'value must have at most 8192 characters'],
    [secretChangeSchema, { value: ['x'] }, 'value must be a string'],
    [secretChangeSchema, { allowed_hosts: 'a.example' }, 'allowed_hosts must be a list'],
    [secretChangeSchema, { allowed_hosts: [] }, 'allowed_hosts must have at least 1 entry'],
    [
      secretChangeSchema,
      { surfaces: ['cookie'] },
      'surfaces[0] must be "headers" or "query" or "path" or "body"',
    ],
    [secretChangeSchema, { val: 'x' }, '"val" is unknown'],
    [policySchema, { allow: 'pypi.org' }, 'allow must be a list'],
    [policySchema, { dns: 'nope' }, 'dns must be "refuse" or "nxdomain"'],
    [policySchema, { allow: ['a.example', { ports: [1] }] }, allowOne],
    [policySchema, { allow: ['a.example', { to: 'a', method: [] }] }, 'allow[1]: "method" is unknown'],
    [
      ownSecretsSchema,
      { '1bad-name': { value: 'a-value-0', allowed_hosts: ['a.example'] } },
      '1bad-name: a secret’s name is that of an environment variable: letters, digits and "_", 64 at most, no digit first',
    ],
    [policySchema, 5, 'the request must be an object'],
    [
      actionRequestSchema,
      { id: 'a', action: 'x' },
      'action must be "message.send" or "run.start" or "group.create" or "chat.create" or "schedule.create" or "schedule.pause" or "schedule.resume" or "schedule.remove"',
    ],
  ];
  for (const [schema, value, wanted] of table)
    assert.equal(sentence(schema, value), wanted, JSON.stringify(value).slice(0, 60));
});

test('issueSentence leaves a schema its own words', () => {
  assert.match(
    sentence(policySchema, { allow: ['http://pypi.org'] }),
    /^allow\[0\] "http:\/\/pypi.org" is a URL/,
  );
});
