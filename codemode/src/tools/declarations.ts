/**
 * TypeScript declarations of a catalog, for a prompt. A schema is somebody else's text: whatever it holds, the declarations stay well-formed, and
 * one bad schema does not cost the others.
 */
import type { CatalogEntry, JsonSchema } from './catalog.ts';

/** Deeper types are `unknown`: no model reads them, and a schema may refer to itself. */
const depthMax = 12;
/** So are the parts of a type beyond this: one that refers to itself in ten places is a million at a depth of six. */
const partsMax = 1000;
/** And one whose text is longer, or who takes as many steps to be read: one string of a schema may be megabytes, and stand in a thousand places. */
const typeCharsMax = 20_000;
/** As many as JSON Schema has. */
const typesMax = 7;
/** Of what a server says about one tool and its fields. */
const docLinesMax = 100;

export function declarationsOf(entries: readonly CatalogEntry[]): string {
  const roots = new Map<string, Space>();
  for (const entry of entries) {
    let space: Space = roots;
    for (const name of entry.path.slice(0, -1)) {
      const found = space.get(name);
      const next: Space = found instanceof Map ? found : new Map();
      space.set(name, next);
      space = next;
    }
    space.set(entry.path.at(-1) ?? '', entry);
  }
  return [...roots].map(([name, space]) => `declare const ${name}: ${renderSpace(space, '')};\n`).join('');
}

/** One tool as `codemode.search` and the prompt show it. */
export function signatureOf(entry: CatalogEntry): string {
  return `${docOf(entry, '')}${entry.path.join('.')}(input: ${typeOf(entry.input)}): Promise<${typeOf(entry.output)}>`;
}

type Space = Map<string, Space | CatalogEntry>;

function renderSpace(space: Space | CatalogEntry, indent: string): string {
  if (!(space instanceof Map)) return '';
  const inner = `${indent}  `;
  const members = [...space].map(([name, member]) =>
    member instanceof Map
      ? `${inner}${keyOf(name)}: ${renderSpace(member, inner)};\n`
      : `${docOf(member, inner)}${inner}${keyOf(name)}(input${isOptional(member.input) ? '?' : ''}: ${typeOf(member.input)}): Promise<${typeOf(member.output)}>;\n`,
  );
  return `{\n${members.join('')}${indent}}`;
}

function isOptional(schema: JsonSchema | undefined): boolean {
  if (schema === undefined || typeof schema === 'boolean') return true;
  const required = schema['required'];
  return !Array.isArray(required) || required.length === 0;
}

function docOf(entry: CatalogEntry, indent: string): string {
  const properties =
    isRecord(entry.input) && isRecord(entry.input['properties']) ? entry.input['properties'] : {};
  const fields = Object.entries(properties).flatMap(([name, schema]) => {
    const said = isRecord(schema) ? schema['description'] : undefined;
    return typeof said === 'string' ? [`@param input.${name} ${said}`] : [];
  });
  const lines = [entry.description, ...fields]
    .filter((line) => line !== '')
    .flatMap((line) => line.split(/\r?\n/))
    .slice(0, docLinesMax);
  if (lines.length === 0) return '';
  return `${indent}/**\n${lines.map((line) => `${indent} * ${escapeDoc(line)}\n`).join('')}${indent} */\n`;
}

/** A description must not end the comment it stands in. */
function escapeDoc(line: string): string {
  return line.replaceAll('*/', '*\\/').slice(0, 1000);
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

export function typeOf(schema: JsonSchema | undefined): string {
  try {
    const text = render(schema, {
      root: schema,
      depth: 0,
      left: { parts: partsMax, chars: typeCharsMax },
    });
    return text.length > typeCharsMax ? 'unknown' : text;
  } catch {
    return 'unknown';
  }
}

interface Rendering {
  readonly root: JsonSchema | undefined;
  readonly depth: number;
  readonly left: { parts: number; chars: number };
}

/** @throws RangeError where nothing is left: the whole type is `unknown` */
function spend(at: Rendering, chars: number): void {
  at.left.chars -= chars;
  if (at.left.chars < 0) throw new RangeError('the type is too long');
}

function literal(value: unknown, at: Rendering): string {
  const text = JSON.stringify(value) ?? 'undefined';
  spend(at, text.length);
  return text;
}

function render(schema: unknown, at: Rendering): string {
  spend(at, 1);
  if (schema === false) return 'never';
  at.left.parts -= 1;
  if (!isRecord(schema) || at.depth > depthMax || at.left.parts < 0) return 'unknown';
  const deeper = { ...at, depth: at.depth + 1 };
  const nullable = schema['nullable'] === true ? ' | null' : '';
  if (typeof schema['$ref'] === 'string') {
    spend(at, Math.floor(schema['$ref'].length / 16));
    return render(resolve(at.root, schema['$ref']), deeper);
  }
  if ('const' in schema) return `${literal(schema['const'], at)}${nullable}`;
  if (Array.isArray(schema['enum']))
    return `${schema['enum'].map((value) => literal(value, at)).join(' | ') || 'never'}${nullable}`;
  for (const [key, joint] of [
    ['anyOf', ' | '],
    ['oneOf', ' | '],
    ['allOf', ' & '],
  ] as const) {
    const parts = schema[key];
    if (Array.isArray(parts) && parts.length > 0)
      return `${[...new Set(parts.map((part) => group(render(part, deeper))))].join(joint)}${nullable}`;
  }
  const { type } = schema;
  if (Array.isArray(type)) {
    spend(at, type.length);
    const types = [...new Set<unknown>(type)].slice(0, typesMax);
    return [...new Set(types.map((one) => renderType(schema, one, deeper)))].join(' | ');
  }
  return `${renderType(schema, type ?? (isRecord(schema['properties']) ? 'object' : undefined), deeper)}${nullable}`;
}

function renderType(schema: Readonly<Record<string, unknown>>, type: unknown, at: Rendering): string {
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
    case 'number':
      return type;
    case 'integer':
      return 'number';
    case 'array':
      return renderArray(schema, at);
    case 'object':
      return renderObject(schema, at);
    default:
      return 'unknown';
  }
}

function renderArray(schema: Readonly<Record<string, unknown>>, at: Rendering): string {
  const tuple = schema['prefixItems'] ?? schema['items'];
  if (Array.isArray(tuple)) return `[${tuple.map((item) => render(item, at)).join(', ')}]`;
  const item = render(schema['items'], at);
  return / [|&] /.test(item) ? `Array<${item}>` : `${item}[]`;
}

function renderObject(schema: Readonly<Record<string, unknown>>, at: Rendering): string {
  const properties = isRecord(schema['properties']) ? Object.entries(schema['properties']) : [];
  const listed: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : [];
  spend(at, properties.length + listed.length);
  const required = new Set(listed);
  const extra = schema['additionalProperties'];
  if (properties.length === 0)
    return extra === false
      ? 'Record<string, never>'
      : `Record<string, ${isRecord(extra) ? render(extra, at) : 'unknown'}>`;
  const members = properties.map(([name, member]) => {
    spend(at, name.length);
    return `${keyOf(name)}${required.has(name) ? '' : '?'}: ${render(member, at)}`;
  });
  return `{ ${members.join('; ')} }`;
}

/** `#/$defs/x`, within the schema alone. */
function resolve(root: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined;
  let at = root;
  for (const step of reference
    .slice(1)
    .split('/')
    .filter((part) => part !== '')) {
    const name = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isRecord(at) || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function group(type: string): string {
  return / [|&] /.test(type) && !/^[{[]/.test(type) ? `(${type})` : type;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
