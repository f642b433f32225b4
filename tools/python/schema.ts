/** What of OpenAPI and JSON Schema the contract's description uses, and the walk over its operations of `/v1`. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly description?: string;
  readonly default?: unknown;
}

interface Parameter {
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

interface Described {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content?: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
  readonly 'x-events'?: Readonly<Record<string, Schema>>;
  readonly 'x-websocket'?: unknown;
}

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export interface Operation extends Described {
  readonly method: string;
  readonly path: string;
}

/** Those of `/v1` that are asked by plain HTTP. */
export function operationsOf(document: Document): readonly Operation[] {
  return Object.entries(document.paths)
    .filter(([path]) => path.startsWith('/v1/') && !path.startsWith('/v1/ssh/'))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        ...operation,
        method: method.toUpperCase(),
        path,
      })),
    )
    .filter((operation) => operation['x-websocket'] === undefined);
}

export function variantsOf(schema: Schema): readonly Schema[] {
  return schema.anyOf ?? schema.oneOf ?? [];
}

export function typesOf(schema: Schema): readonly string[] {
  return typeof schema.type === 'string' ? [schema.type] : (schema.type ?? []);
}

/** An object with known names, not a map. */
export function isRecord(schema: Schema): boolean {
  return schema.properties !== undefined && typeof schema.additionalProperties !== 'object';
}

/** `attached_to` → `AttachedTo`, `sandbox.create` → `SandboxCreate`. */
export function camel(name: string): string {
  return name.replaceAll(/(?:^|[._-])(\w)/g, (_all, first: string) => first.toUpperCase());
}

export function literal(values: readonly unknown[]): string {
  return `Literal[${values.map((value) => (typeof value === 'boolean' ? camel(String(value)) : JSON.stringify(value))).join(', ')}]`;
}

export function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf('/') + 1);
}

/** A named schema that leads back to itself, as that of any JSON does. */
export function isRecursive(document: Document, name: string): boolean {
  const seen = new Set<string>();
  const leadsBack = (schema: Schema | undefined): boolean =>
    [...JSON.stringify(schema ?? {}).matchAll(/"\$ref":"([^"]+)"/g)].some(([, reference = '']) => {
      const next = nameOf(reference);
      if (next === name) return true;
      if (seen.has(next)) return false;
      seen.add(next);
      return leadsBack(document.components.schemas[next]);
    });
  return leadsBack(document.components.schemas[name]);
}

/** The same shape wherever it stands: without what is said about it. */
export function shapeKey(schema: Schema): string {
  return JSON.stringify(schema, (name, value: unknown) => (name === 'description' ? undefined : value));
}

/** Lines of a docstring; empty where there is nothing to say. */
export function docstring(text: string | undefined, indent: string): readonly string[] {
  if (text === undefined || text === '') return [];
  const safe = text.replaceAll('\\', '\\\\').replaceAll('"', "'");
  return [`${indent}"""${safe}"""`];
}

const keywords = new Set(['as', 'for', 'from', 'in', 'import', 'is', 'class', 'global', 'pass', 'with']);

/** An option's name as a keyword argument: Python's own words get an underscore behind them. */
export function argument(name: string): string {
  return keywords.has(name) ? `${name}_` : name;
}
