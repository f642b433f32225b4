/**
 * Tools with what is said about them: descriptions and schemas, from which a prompt's declarations, the search and the checks of arguments
 * are made. A catalog gives the tree that `execute()` takes.
 */
import { z } from 'zod';
import { chargeRun } from '../host/tool-context.ts';
import type { ToolFn, ToolTree } from '../types.ts';
import { bounded } from './bounded.ts';
import { refuseExpansive } from './expanse.ts';
import { type Check, checkOf } from './json-schema.ts';
import { uniqueNames } from './names.ts';

export type JsonSchema = boolean | { readonly [key: string]: unknown };

export type ToolSchema = z.ZodType | JsonSchema | undefined;

/** What a tool gets: what Zod has made of it, or what JSON Schema, of which no types are made, let through. */
export type ToolInput<S> = S extends z.ZodType ? z.output<S> : unknown;

export interface ToolDefinition<S = ToolSchema> {
  readonly description?: string | undefined;
  /** Of the one argument, an object. Zod, or JSON Schema. */
  readonly inputSchema?: S;
  readonly outputSchema?: ToolSchema;
  execute(input: ToolInput<S>): unknown;
}

export interface CatalogEntry {
  /** `["codemode", "fs", "read_file"]` */
  readonly path: readonly string[];
  readonly description: string;
  readonly input: JsonSchema | undefined;
  readonly output: JsonSchema | undefined;
  readonly call: ToolFn;
}

/** Tools of one namespace below `codemode`, or directly in it. */
export function catalogOf<T extends Readonly<Record<string, ToolSchema>>>(
  given: { readonly [Name in keyof T]: ToolDefinition<T[Name]> | ToolFn },
  namespace: readonly string[] = [],
): readonly CatalogEntry[] {
  const tools = given as Readonly<Record<string, ToolDefinition | ToolFn>>;
  const names = Object.keys(tools);
  const safe = uniqueNames(names);
  return names.map((name, at): CatalogEntry => {
    const tool = tools[name];
    const definition: ToolDefinition =
      typeof tool === 'function' ? { execute: tool } : (tool ?? { execute: () => undefined });
    return {
      path: ['codemode', ...namespace, safe[at] ?? name],
      description: definition.description ?? '',
      input: schemaOf(definition.inputSchema),
      output: schemaOf(definition.outputSchema),
      call: typeof tool === 'function' ? tool : checked(definition),
    };
  });
}

/** What `execute()` takes: without prototypes, as a server may be called `toString`. */
export function toolTreeOf(entries: readonly CatalogEntry[]): ToolTree {
  const root: Space = Object.create(null);
  for (const { path, call } of entries) {
    let space = root;
    for (const name of path.slice(1, -1)) {
      const found = space[name];
      // Where a tool has the name as well, the namespace gets it: a function takes no members.
      const next: Space = typeof found === 'object' ? found : Object.create(null);
      space[name] = next;
      space = next;
    }
    space[path.at(-1) ?? ''] = call;
  }
  return root;
}

interface Space {
  [name: string]: ToolFn | Space;
}

function schemaOf(schema: z.ZodType | JsonSchema | undefined): JsonSchema | undefined {
  if (!(schema instanceof z.ZodType)) return schema;
  return z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' }) as JsonSchema;
}

/** Arguments are checked before the tool sees them: they come from code that nobody has read. */
function checked(definition: ToolDefinition): ToolFn {
  const { inputSchema } = definition;
  if (inputSchema === undefined || typeof inputSchema === 'boolean')
    return (input) => definition.execute(input);
  const isZod = inputSchema instanceof z.ZodType;
  const schema = isZod ? inputSchema : fromJsonSchema(inputSchema);
  // Made for the first call: of thousands of tools few are called.
  let check: Check | undefined;
  return (input) => {
    if (!isZod) check ??= checkFor(inputSchema, schema !== undefined);
    const given = input === undefined ? {} : input;
    const parsed = chargeRun(() => {
      refuseExpansive(input);
      return bounded(() => {
        const read = schema?.safeParse(given) ?? { success: true, data: given };
        const fault = read.success ? check?.(read.data) : z.prettifyError(read.error);
        return { fault, data: read.data };
      });
    });
    if (parsed.fault !== undefined) throw new TypeError(`invalid input: ${parsed.fault}`);
    return definition.execute(parsed.data);
  };
}

/** A schema that Zod does not know how to read. */
function fromJsonSchema(schema: Exclude<JsonSchema, boolean>): z.ZodType | undefined {
  try {
    return z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
  } catch {
    return undefined;
  }
}

/** @throws TypeError where nothing checks by it: then the tool is not called */
function checkFor(schema: Exclude<JsonSchema, boolean>, isRead: boolean): Check {
  try {
    return checkOf(schema);
  } catch (cause) {
    if (isRead) return () => undefined;
    throw new TypeError('the tool has a schema that nothing can be checked by', { cause });
  }
}
