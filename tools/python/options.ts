/** `python/squash/options.py`: what methods take as keyword arguments, and the dictionaries in it, for type checkers. */
import {
  argument,
  camel,
  type Document,
  docstring,
  isRecord,
  isRecursive,
  literal,
  nameOf,
  type Operation,
  operationsOf,
  type Schema,
  shapeKey,
  typesOf,
  variantsOf,
} from './schema.ts';

const head = `"""What methods take as keyword arguments, for type checkers only. Written by tools/python-sdk.ts from contract/openapi.json.

Names are those of the wire; the words of Python's own have an underscore behind them (\`from_\`, \`as_\`).
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Sequence, TypedDict, Union
`;

/** What a method takes by position, or the SDK says by itself. */
const notOptions: Readonly<Record<string, readonly string[]>> = {
  'sandbox.run': ['exec'],
  'process.exec': ['argv', 'shell'],
  'process.start': ['argv', 'shell'],
  'process.output': ['after', 'format'],
  'process.stdin': [],
  'process.wait': ['for', 'text', 'pattern', 'port'],
  'process.signal': ['signal'],
  'process.resize': ['rows', 'columns'],
  'file.glob': ['pattern'],
  'file.search': ['text'],
  'file.make_directory': ['path'],
  'file.move': ['from', 'to'],
  'file.copy': ['from', 'to'],
  'file.link': ['path', 'target'],
  'port.set': ['access'],
  'snapshot.create': ['label'],
  'snapshot.restore': ['snapshot'],
  'module.activate': ['module'],
  'mount.attach': ['path'],
  'mount.check': ['host'],
  'change.list': ['place', 'limit'],
  'change.file': ['place', 'path'],
  'change.apply': ['place', 'paths'],
  'volume.create': ['name'],
  'volume.snapshot': ['name'],
  'key.create': ['name'],
  'ssh_key.create': ['name'],
  'approval.decide': ['decision'],
  'webhook.create': ['url'],
  'group.create': ['name'],
  'group.decide': ['decision'],
  'chat.create': ['name'],
  'chat.message': ['text'],
  'schedule.create': ['chat', 'name', 'text'],
  'schedule.update': ['paused'],
  'policy.test': ['to'],
  'egress.decisions': ['follow'],
  'chat.read': ['follow'],
  'event.list': ['follow', 'limit', 'after'],
  'ticket.create': ['path'],
  'context.create': ['language'],
  'context.run': ['code'],
  'context.output': ['after', 'follow', 'format'],
};
/** Names and places of files stand in `path` everywhere; pages are read by the SDK. */
const never = ['cursor', 'path_base64'];

interface Option {
  readonly name: string;
  readonly annotation: string;
  readonly isRequired: boolean;
  readonly description: string | undefined;
}

class Options {
  readonly #document: Document;
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #classes = new Map<string, string>();
  readonly #names = new Map<string, string>();

  constructor(document: Document) {
    this.#document = document;
    this.#schemas = document.components.schemas;
    for (const operation of operationsOf(document)) this.#operation(operation);
  }

  get text(): string {
    return `${[head.trimEnd(), ...this.#classes.values()].join('\n\n\n')}\n`;
  }

  #operation(operation: Operation): void {
    const { operationId } = operation;
    const left = [...(notOptions[operationId] ?? []), ...never];
    if (operation.path.includes('/files') && operation.parameters?.some(({ name }) => name === 'path_base64'))
      left.push('path');
    const queries = (operation.parameters ?? []).filter((each) => each.in === 'query');
    const options: Option[] = queries.map(({ name, required, description, schema }) => ({
      name,
      annotation: this.annotation(schema, ''),
      isRequired: required === true,
      description: description ?? schema.description,
    }));
    const schema = operation.requestBody?.content?.['application/json']?.schema;
    const body = schema?.$ref === undefined ? schema : this.#named(schema.$ref);
    if (body !== undefined) options.push(...this.#optionsOf(body, camel(operationId)));
    const kept = options.filter(({ name }) => !left.includes(name));
    if (kept.length === 0) return;
    this.#write(`${camel(operationId)}Options`, kept, argument);
  }

  #named(reference: string): Schema {
    const name = nameOf(reference);
    const schema = this.#schemas[name];
    if (schema === undefined) throw new Error(`${name} is not described`);
    return schema;
  }

  #optionsOf(schema: Schema, name: string): readonly Option[] {
    const required = new Set(schema.required ?? []);
    return Object.entries(schema.properties ?? {})
      .filter(([, type]) => !isNothing(type))
      .map(([field, type]) => ({
        name: field,
        annotation: this.annotation(type, `${name}${camel(field)}`),
        isRequired: required.has(field),
        description: type.description,
      }));
  }

  #write(name: string, options: readonly Option[], asName: (name: string) => string): void {
    const lines = (those: readonly Option[]): string =>
      those
        .flatMap((each) => [
          `    ${asName(each.name)}: ${each.annotation}`,
          ...docstring(each.description, '    '),
        ])
        .join('\n');
    if (options.some((each) => argument(asName(each.name)) !== asName(each.name))) {
      // A word of Python's own is no name of a class's field.
      const fields = options.map((each) => `        "${each.name}": ${JSON.stringify(each.annotation)},`);
      this.#classes.set(
        name,
        [
          `${name} = TypedDict(`,
          `    "${name}",`,
          '    {',
          ...fields,
          '    },',
          '    total=False,',
          ')',
        ].join('\n'),
      );
      return;
    }
    const required = options.filter((each) => each.isRequired);
    const optional = options.filter((each) => !each.isRequired);
    if (required.length === 0) {
      this.#classes.set(name, `class ${name}(TypedDict, total=False):\n${lines(optional)}`);
    } else if (optional.length === 0) {
      this.#classes.set(name, `class ${name}(TypedDict):\n${lines(required)}`);
    } else {
      this.#classes.set(
        name,
        `class _${name}(TypedDict):\n${lines(required)}\n\n\nclass ${name}(_${name}, total=False):\n${lines(optional)}`,
      );
    }
  }

  annotation(schema: Schema, name: string): string {
    if (schema.$ref !== undefined) {
      const named = nameOf(schema.$ref);
      return isRecursive(this.#document, named) ? 'Any' : this.annotation(this.#named(schema.$ref), named);
    }
    if (schema.const !== undefined) return literal([schema.const]);
    if (schema.enum !== undefined) return literal(schema.enum);
    const variants = variantsOf(schema);
    if (variants.length > 0) {
      return [
        ...new Set(variants.map((variant) => this.annotation(variant, nameWithin(variant, name)))),
      ].join(' | ');
    }
    if (isRecord(schema)) return this.#dictionary(schema, name);
    return typesOf(schema)
      .map((type) => this.#plain(type, schema, name))
      .join(' | ');
  }

  #plain(type: string, schema: Schema, name: string): string {
    if (type === 'array') return `Sequence[${this.annotation(schema.items ?? {}, name)}]`;
    if (type === 'object') {
      const of = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
      return `Mapping[str, ${this.annotation(of, name)}]`;
    }
    return scalars[type] ?? 'object';
  }

  #dictionary(schema: Schema, name: string): string {
    const key = shapeKey(schema);
    const wanted = schema.properties?.['upgrades'] === undefined ? name : 'PolicyRuleWish';
    const known = this.#names.get(key) ?? wanted;
    if (!this.#names.has(key)) {
      this.#names.set(key, known);
      const options = this.#optionsOf(schema, known);
      if (this.#classes.has(known)) throw new Error(`two dictionaries are called ${known}`);
      this.#write(known, options, (field) => field);
    }
    return known;
  }
}

/** A field that only says that something is not offered yet. */
function isNothing(schema: Schema): boolean {
  return schema.$ref === undefined && Object.keys(schema).every((name) => name === 'description');
}

/** Variants of one option are told apart by their first field. */
function nameWithin(variant: Schema, name: string): string {
  return `${name}${camel(Object.keys(variant.properties ?? {})[0] ?? '')}`;
}

const scalars: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
};

export function optionsModule(document: Document): string {
  const { text } = new Options(document);
  return text.replace(/^from typing import (.*)$/m, (_all, names: string) => {
    const used = names.split(', ').filter((name) => text.split(new RegExp(`\\b${name}\\b`)).length > 2);
    return `from typing import ${used.join(', ')}`;
  });
}
