/**
 * What a create answers about fields that have no effect: of parts that do not exist yet, or of no part at all.
 */
import type { Warning } from '@squash/contract/sandbox';

/** Fields of the original's later versions. Values that ask for nothing need no warning. */
const missingParts: Readonly<Record<string, string>> = {
  features: 'features has no effect: sandboxes have no desktop',
  gui: 'gui has no effect: sandboxes have no desktop',
};

/** Answered one by one up to here; a client that sends more made-up names learns it from the last one. */
const unknownNamesMax = 16;

export function fieldWarnings(
  fields: readonly string[],
  body: Readonly<Record<string, unknown>>,
): readonly Warning[] {
  const warnings: Warning[] = [];
  const unknown: string[] = [];
  for (const field of fields) {
    const message = Object.hasOwn(missingParts, field) ? missingParts[field] : undefined;
    if (message === undefined) unknown.push(field);
    else if (!isNothing(body[field])) warnings.push({ code: 'unsupported_field', message });
  }
  for (const field of unknown.slice(0, unknownNamesMax)) {
    warnings.push({ code: 'unknown_field', message: `"${field.slice(0, 64)}" is unknown and has no effect` });
  }
  if (unknown.length > unknownNamesMax) {
    const more = unknown.length - unknownNamesMax;
    warnings.push({ code: 'unknown_field', message: `${more} more fields are unknown and have no effect` });
  }
  return warnings;
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === false) return true;
  return Array.isArray(value) && value.length === 0;
}
