/** `python/squash/_operations.py`: where each operation of `/v1` is found. */
import { type Document, operationsOf } from './schema.ts';

export function operationsModule(document: Document, version: string): string {
  const rows = operationsOf(document).map(
    ({ operationId, method, path, description, parameters, requestBody }) => {
      // The contract says so in words only.
      const takesKey = description?.includes('Idempotency-Key') === true;
      const query = (parameters ?? [])
        .filter((each) => each.in === 'query')
        .map(({ name }) => JSON.stringify(name));
      const hasBody = requestBody?.content?.['application/json'] !== undefined;
      const names = `(${query.join(', ')}${query.length === 1 ? ',' : ''})`;
      const words = [
        `"${operationId}"`,
        `"${method}"`,
        `"${path}"`,
        names,
        pythonBoolean(hasBody),
        pythonBoolean(takesKey),
      ];
      return `    "${operationId}": Operation(${words.join(', ')}),`;
    },
  );
  return `"""Where each operation of the API is found. Written by tools/python-sdk.ts from contract/openapi.json."""

from __future__ import annotations

from typing import NamedTuple

#: The release that this SDK was made for.
VERSION = "${version}"


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    query: tuple[str, ...]
    takes_json: bool
    #: The same request under the same Idempotency-Key is answered again, not done again.
    takes_key: bool


OPERATIONS = {
${rows.join('\n')}
}
`;
}

function pythonBoolean(value: boolean): string {
  return value ? 'True' : 'False';
}
