/**
 * Tools with what is said about them: descriptions and schemas, from which a prompt's declarations, the search and the checks of arguments
 * are made. A catalog gives the tree that `execute()` takes.
 */
import { z } from 'zod';
import { chargeRun } from '../host/tool-context.ts';
import type { ToolFn, ToolTree } from '../types.ts';
import { bounded } from './bounded.ts';
import { refuseExpansive } from './expanse.ts';
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
  const schema = inputSchema instanceof z.ZodType ? inputSchema : fromJsonSchema(inputSchema);
  return (input) => {
    if (schema === undefined) return definition.execute(input);
    const parsed = chargeRun(() => {
      refuseExpansive(input);
      return bounded(() => schema.safeParse(input === undefined ? {} : input));
    });
    if (parsed.success) return definition.execute(parsed.data);
    throw new TypeError(`invalid input: ${z.prettifyError(parsed.error)}`);
  };
}

/** A schema that zod does not know how to check is left to the tool. */
function fromJsonSchema(schema: JsonSchema | undefined): z.ZodType | undefined {
  if (schema === undefined || typeof schema === 'boolean') return undefined;
  try {
    return z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
  } catch {
    return undefined;
  }
}
