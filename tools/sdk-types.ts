/**
 * Writes what the TypeScript SDK knows of the wire from `contract/openapi.json`: `sdk/src/records.gen.ts`, the shapes as types, and
 * `sdk/src/operations.gen.ts`, where each operation of `/v1` is found. With `--check` it writes nothing and fails where a file
 * is not what it would write.
 *
 * Own code and not openapi-typescript: that one calls TypeScript 5 as a library, and names nothing by the operation's id.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly description?: string;
  readonly default?: unknown;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
  readonly 'x-errors': readonly string[];
  readonly 'x-events'?: Readonly<Record<string, Schema>>;
  readonly 'x-websocket'?: unknown;
}

interface Located extends Operation {
  readonly method: string;
  readonly path: string;
}

const description = JSON.parse(readFileSync(join(root, 'contract/openapi.json'), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
};
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly version: string;
};

const heading = '// Written by tools/sdk-types.ts from contract/openapi.json: do not change it here.\n';
const jsonType = 'application/json';

/** The SDK speaks `/v1`, and opens no WebSockets. What the gateway of SSH asks is its own. */
const operations: readonly Located[] = Object.entries(description.paths)
  .filter(([path]) => path.startsWith('/v1/') && !path.startsWith('/v1/ssh/'))
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      path,
      method: method.toUpperCase(),
    })),
  )
  .filter((operation) => operation['x-websocket'] === undefined);

function typeOf(schema: Schema, indent: string): string {
  if (schema.$ref !== undefined) return schema.$ref.replace('#/components/schemas/', '');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return choices.map((choice) => typeOf(choice, indent)).join(' | ');
  if (Array.isArray(schema.type))
    return schema.type.map((type: string) => typeOf({ ...schema, type }, indent)).join(' | ');
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'number':
    case 'null':
      return schema.type;
    case 'integer':
      return 'number';
    case 'array':
      return schema.items === undefined ? 'readonly unknown[]' : arrayOf(typeOf(schema.items, indent));
    case 'object':
      return objectType(schema, indent);
    case undefined:
    default:
      return 'unknown';
  }
}

function arrayOf(item: string): string {
  return `readonly ${/^[\w]+$/.test(item) ? item : `(${item})`}[]`;
}

function objectType(schema: Schema, indent: string): string {
  const { properties = {}, required = [], additionalProperties } = schema;
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, field]) => {
    const mark = required.includes(name) ? '' : '?';
    return `${comment(field, inner)}${inner}readonly ${keyOf(name)}${mark}: ${typeOf(field, inner)};\n`;
  });
  if (fields.length > 0) return `{\n${fields.join('')}${indent}}`;
  if (typeof additionalProperties === 'object')
    return `Readonly<Record<string, ${typeOf(additionalProperties, indent)}>>`;
  return 'Readonly<Record<string, unknown>>';
}

function keyOf(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
}

function comment({ description: text, default: value }: Schema, indent: string): string {
  const parts = [text, value === undefined ? undefined : `Default: ${JSON.stringify(value)}`];
  const said = parts.filter((part) => part !== undefined).join('. ');
  return said === '' ? '' : `${indent}/** ${said.replaceAll('*/', '* /')} */\n`;
}

/** The shapes that those operations use, and the ones these use. */
function usedShapes(): readonly string[] {
  const found = new Set(['Problem']);
  const look = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (found.has(name)) continue;
      found.add(name);
      look(description.components.schemas[name]);
    }
  };
  look(operations);
  return [...found].sort();
}

function records(): string {
  const shapes = usedShapes().map((name) => {
    const schema = description.components.schemas[name] ?? {};
    const text = typeOf(schema, '');
    const begin = text.startsWith('{') && !text.includes('} |') ? `interface ${name} ` : `type ${name} = `;
    return `${comment(schema, '')}export ${begin}${text}${begin.startsWith('type') ? ';' : ''}\n`;
  });
  const rows = operations.map((operation) => `  '${operation.operationId}': ${operationType(operation)};\n`);
  return [
    `/** What goes over the wire, by the names that the contract has. */\n${heading}`,
    ...shapes,
    `/** What each operation takes and answers. */\nexport interface Operations {\n${rows.join('')}}\n`,
  ].join('\n');
}

function operationType({ parameters = [], requestBody, responses, ...operation }: Located): string {
  const body = requestBody?.content[jsonType]?.schema;
  const answered = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1].content ?? {};
  const answer = answered[jsonType]?.schema;
  const events = Object.values(operation['x-events'] ?? {});
  const fields = [
    ['path', parametersType(parameters, 'path')],
    ['query', parametersType(parameters, 'query')],
    ['body', body === undefined ? 'undefined' : typeOf(body, '    ')],
    ['answer', answer === undefined ? 'undefined' : typeOf(answer, '    ')],
    ['event', events.length === 0 ? 'never' : events.map((event) => typeOf(event, '    ')).join(' | ')],
  ];
  return `{\n${fields.map(([name, type]) => `    readonly ${name}: ${type};\n`).join('')}  }`;
}

function parametersType(parameters: readonly Parameter[], place: string): string {
  const its = parameters.filter((parameter) => parameter.in === place);
  if (its.length === 0) return 'Readonly<Record<string, never>>';
  const properties = Object.fromEntries(
    its.map(({ name, schema, description: text }) => [
      name,
      { ...schema, ...(text !== undefined && { description: text }) },
    ]),
  );
  const required = place === 'path' ? its.map(({ name }) => name) : [];
  return typeOf({ type: 'object', properties, required }, '    ');
}

function table(): string {
  const rows = operations.map(({ operationId, method, path, 'x-errors': errors }) => {
    // Which are carried out once where they are sent twice says the error that only they have.
    const once = errors.includes('idempotency_mismatch') ? ', once: true' : '';
    return `  '${operationId}': { method: '${method}', path: '${path}'${once} },\n`;
  });
  return [
    `/** Where each operation is found; \`once\`: it takes an \`Idempotency-Key\`. */\n${heading}`,
    `/** The release that this was written from. */\nexport const version = '${version}';\n`,
    `export const operations = {\n${rows.join('')}} as const;\n`,
  ].join('\n');
}

const wanted: Readonly<Record<string, string>> = {
  'sdk/src/records.gen.ts': records(),
  'sdk/src/operations.gen.ts': table(),
};

function current(file: string): string | undefined {
  try {
    return readFileSync(join(root, file), 'utf8');
  } catch {
    // Not written yet.
    return undefined;
  }
}

const stale = Object.entries(wanted).filter(([file, text]) => current(file) !== text);
if (process.argv.includes('--check')) {
  for (const [file] of stale) console.error(`${file} is not fresh: run node tools/sdk-types.ts`);
  process.exitCode = stale.length === 0 ? 0 : 1;
} else {
  for (const [file, text] of stale) {
    writeFileSync(join(root, file), text);
    console.log(`wrote ${file}`);
  }
}
