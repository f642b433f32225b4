/**
 * `python/squash/types.py`: a record for everything that the daemon answers, each with the shape that its JSON is read by.
 *
 * Objects that the contract has no name for get that of the record and field they stand in; one shape has one name.
 */
import {
  camel,
  type Document,
  docstring,
  isRecord,
  isRecursive,
  literal,
  nameOf,
  operationsOf,
  type Schema,
  shapeKey,
  typesOf,
  variantsOf,
} from './schema.ts';

/** How a value is annotated, and what reads it. */
interface Form {
  readonly annotation: string;
  readonly reader: string;
}

const head = `"""What the daemon answers, as records. Written by tools/python-sdk.ts from contract/openapi.json.

Fields have the names that they have on the wire. Type checkers see frozen dataclasses, and \`dataclasses.asdict\` works. A field
that a newer daemon sends besides is not told here; one that an older daemon does not send raises \`ProtocolError\` when it is
read. Where a field names one of several words, a newer daemon may say another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from . import _record as r
from ._record import Record, Shape

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from ._record import dataclass
`;

/** What the surface reads by itself. */
const notMade = (name: string): boolean => /Page$|^(Problem|Error|PortList)$/.test(name);

class Records {
  readonly #document: Document;
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #classes = new Map<string, string>();
  readonly #names = new Map<string, string>();

  constructor(document: Document) {
    this.#document = document;
    this.#schemas = document.components.schemas;
    for (const operation of operationsOf(document)) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        const schema = content?.['application/json']?.schema;
        if (!status.startsWith('2') || schema === undefined) continue;
        this.#answer(schema, camel(operation.operationId));
      }
      for (const schema of Object.values(operation['x-events'] ?? {})) {
        this.#event(schema, operation.operationId);
      }
    }
  }

  get text(): string {
    return `${[head.trimEnd(), ...this.#classes.values()].join('\n\n\n')}\n`;
  }

  /** Of a stream whose events are told apart by `type`. Those of processes the surface has by itself. */
  #event(schema: Schema, operationId: string): void {
    const type = schema.properties?.['type']?.const;
    const [noun = ''] = operationId.split('.');
    if (schema.$ref !== undefined) this.form(schema, '');
    else if (typeof type === 'string' && noun !== 'process' && !['gap', 'error'].includes(type))
      this.form(schema, `${camel(noun)}Event${camel(type)}`);
  }

  #answer(schema: Schema, name: string): void {
    const target = schema.$ref === undefined ? schema : this.#schemas[nameOf(schema.$ref)];
    if (target?.properties?.['items'] !== undefined && target.properties['next'] !== undefined) {
      this.form(target.properties['items'], `${name}Item`);
      return;
    }
    this.form(schema, `${name}Answer`);
  }

  form(schema: Schema, name: string): Form {
    if (schema.$ref !== undefined) {
      const named = nameOf(schema.$ref);
      const target = this.#schemas[named];
      if (target === undefined) throw new Error(`${named} is not described`);
      if (isRecursive(this.#document, named)) return { annotation: 'Any', reader: 'r.anything' };
      return this.form(target, named);
    }
    if (schema.const !== undefined) return { annotation: literal([schema.const]), reader: 'r.anything' };
    if (schema.enum !== undefined) return { annotation: literal(schema.enum), reader: 'r.text' };
    const variants = variantsOf(schema);
    if (variants.length > 0) return this.#union(variants, name);
    if (isRecord(schema)) return this.#record(schema, name);
    return this.#plain(schema, name);
  }

  #plain(schema: Schema, name: string): Form {
    const types = typesOf(schema);
    if (types.length > 1) {
      const forms = types
        .filter((type) => type !== 'null')
        .map((type) => this.#plain({ ...schema, type }, name));
      const annotation = forms.map((form) => form.annotation).join(' | ');
      const [only] = forms;
      const reader = forms.length === 1 && only !== undefined ? only.reader : 'r.anything';
      return types.includes('null')
        ? { annotation: `${annotation} | None`, reader: `r.nullable(${reader})` }
        : { annotation, reader };
    }
    if (types[0] === 'array') {
      // One of its results is a result.
      const { annotation, reader } = this.form(schema.items ?? {}, name.replace(/([^s])s$/, '$1'));
      return { annotation: `list[${annotation}]`, reader: `r.array(${reader})` };
    }
    if (types[0] === 'object') {
      const of = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
      const { annotation, reader } = this.form(of, name);
      return { annotation: `dict[str, ${annotation}]`, reader: `r.mapping(${reader})` };
    }
    return scalars[types[0] ?? ''] ?? { annotation: 'object', reader: 'r.anything' };
  }

  #union(variants: readonly Schema[], name: string): Form {
    const present = variants.filter((variant) => !typesOf(variant).includes('null'));
    const isNullable = present.length < variants.length;
    const tag = tagOf(present);
    const forms = present.map((variant) =>
      this.form(
        variant,
        tag === undefined ? name : `${name}${camel(String(variant.properties?.[tag]?.const))}`,
      ),
    );
    const annotation = forms.map((form) => form.annotation).join(' | ');
    let reader = forms.map((form) => form.reader).join(', ');
    if (tag !== undefined) {
      const rows = forms.map(
        (form, index) => `${JSON.stringify(present[index]?.properties?.[tag]?.const)}: ${form.annotation}`,
      );
      reader = `r.one_of("${tag}", {${rows.join(', ')}})`;
    } else if (forms.length > 1) reader = `r.either(${reader})`;
    return isNullable
      ? { annotation: `${annotation} | None`, reader: `r.nullable(${reader})` }
      : { annotation, reader };
  }

  #record(schema: Schema, name: string): Form {
    const key = shapeKey(schema);
    const wanted = schema.properties?.['upgrades'] === undefined ? name : 'PolicyRule';
    const known = this.#names.get(key) ?? wanted;
    this.#names.set(key, known);
    if (!this.#classes.has(known) && !notMade(known)) {
      const body = this.#fields(schema, known);
      if (this.#classes.has(known)) throw new Error(`two records are called ${known}`);
      this.#classes.set(known, `@dataclass(frozen=True)\nclass ${known}(Record):\n${body}`);
    }
    return { annotation: known, reader: `r.record(${known})` };
  }

  #fields(schema: Schema, name: string): string {
    const required = new Set(schema.required ?? []);
    const fields = Object.entries(schema.properties ?? {}).map(([field, type]) => ({
      field,
      description: type.description,
      isRequired: required.has(field),
      ...this.form(type, `${name}${camel(field)}`),
    }));
    const ordered = [
      ...fields.filter((each) => each.isRequired),
      ...fields.filter((each) => !each.isRequired),
    ];
    const lines = docstring(schema.description, '    ').slice();
    if (fields.length === 0) lines.push('    pass');
    for (const { field, annotation, isRequired, description } of ordered) {
      const optional = annotation.endsWith('| None') ? annotation : `${annotation} | None`;
      lines.push(
        `    ${field}: ${isRequired ? annotation : `${optional} = None`}`,
        ...docstring(description, '    '),
      );
    }
    lines.push('    _shape: ClassVar[Shape] = {');
    for (const { field, reader } of ordered) lines.push(`        "${field}": ${reader},`);
    lines.push('    }');
    return lines.join('\n');
  }
}

const scalars: Readonly<Record<string, Form>> = {
  string: { annotation: 'str', reader: 'r.text' },
  integer: { annotation: 'int', reader: 'r.integer' },
  number: { annotation: 'float', reader: 'r.number' },
  boolean: { annotation: 'bool', reader: 'r.boolean' },
  null: { annotation: 'None', reader: 'r.nothing' },
};

/** The field by whose word the variants are told apart. */
function tagOf(variants: readonly Schema[]): string | undefined {
  if (variants.length < 2) return undefined;
  return ['type', 'kind'].find((tag) =>
    variants.every((variant) => typeof variant.properties?.[tag]?.const === 'string'),
  );
}

export function recordsModule(document: Document): string {
  const { text } = new Records(document);
  return /\bAny\b/.test(text)
    ? text.replace('import TYPE_CHECKING, ClassVar', 'import TYPE_CHECKING, Any, ClassVar')
    : text;
}
