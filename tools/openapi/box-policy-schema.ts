/** The JSON Schema of policy files of boxes, for editors: what a file may say, before defaults and checks of its words. */
import { policyFileShape } from '@squash/box/policy/file-schema';
import { z } from 'zod';

export function boxPolicySchema(): object {
  const schema = z.toJSONSchema(policyFileShape, { io: 'input', target: 'draft-2020-12' });
  return { title: 'Policy of a Squash box', ...schema };
}
