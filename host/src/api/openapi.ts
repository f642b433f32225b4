/** `openapi`: the committed description, read once. */
import { readFile } from 'node:fs/promises';
import type { openapi } from '@squash/contract/operations/daemon';
import type { Handler } from '../http/router.ts';

const file = new URL('../../../contract/openapi.json', import.meta.url);

export function openapiHandler(): Handler<typeof openapi> {
  let text: Promise<string> | undefined;
  return async () => {
    text ??= readFile(file, 'utf8');
    return { type: 'text', contentType: 'application/json', text: await text };
  };
}
