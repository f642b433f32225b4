/**
 * The check of a value by all that a JSON Schema says. Zod makes types and defaults of a schema, and passes over what it has no word for: a keyword
 * beside `anyOf` or `$ref`, a list's length without a type of its members, and the whole of one with `not` or `if`.
 */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';

/** What is wrong with a value; undefined: nothing. */
export type Check = (value: unknown) => string | undefined;

/** @throws Error where it can't be checked by: a reference that leads nowhere, a draft that nobody reads any more */
export function checkOf(schema: { readonly [key: string]: unknown }): Check {
  // One for each schema: two of one `$id` would be taken for the same.
  const maker = new AjvJsonSchemaValidator();
  tune(maker, schema);
  const check = maker.getValidator(schema);
  return (value) => check(value).errorMessage;
}

interface Engine {
  logger: unknown;
  readonly opts: { strictNumbers?: boolean };
}

/** It prints a line for each format that it does not know, which a library must not do, and takes `NaN` for a number. */
function tune(maker: object, schema: object): void {
  const engine = (maker as { _engineFor?(schema: object): Engine })._engineFor?.(schema);
  if (engine === undefined) return;
  engine.logger = { log() {}, warn() {}, error() {} };
  engine.opts.strictNumbers = true;
}
