/**
 * Writes `native/common/frames.gen.h` from `contract/src/guest/frames.ts`, so that the wire format is defined once.
 * `--check` compares instead of writing and exits 1 where the committed header is stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import {
  dataFrames,
  fieldTags,
  fileTypes,
  frameDataBytesMax,
  frameFieldsMax,
  frameHeaderBytes,
  framePayloadBytesMax,
  frameTypes,
  guestLimits,
  guestWindowBytes,
  integerMax,
  lowWater,
  pathIntents,
  protocolVersion,
  stdinModes,
  ttyModes,
  vmmLimits,
} from '../contract/src/guest/frames.ts';

const headerPath = new URL('../native/common/frames.gen.h', import.meta.url);

/** `guestWindowBytes` → `GUEST_WINDOW_BYTES`. */
const screaming = (name: string): string => name.replace(/([A-Z])/g, '_$1').toUpperCase();
const hex = (value: number): string => `0x${value.toString(16).padStart(2, '0')}`;

function constants(
  prefix: string,
  values: Readonly<Record<string, number>>,
  format: (value: number) => string = String,
): string[] {
  return Object.entries(values).map(([name, value]) => `  ${prefix}${screaming(name)} = ${format(value)},`);
}

/** A switch that answers whether a type or tag belongs to a set: no table to keep in memory. */
function predicate(name: string, labels: readonly string[]): string[] {
  return [
    `static inline bool ${name}(unsigned value) {`,
    '  switch (value) {',
    ...labels.map((label) => `    case ${label}:`),
    '      return true;',
    '    default:',
    '      return false;',
    '  }',
    '}',
    '',
  ];
}

function header(): string {
  const tags = Object.fromEntries(Object.entries(fieldTags).map(([name, field]) => [name, field.tag]));
  const integers = Object.entries(fieldTags).filter(([, field]) => field.type === 'u64');
  return [
    '/* Written by tools/gen-frames.ts from contract/src/guest/frames.ts. Do not edit. */',
    '#ifndef SQUASH_FRAMES_GEN_H',
    '#define SQUASH_FRAMES_GEN_H',
    '#include <stdbool.h>',
    '',
    'enum {',
    ...constants('', {
      frameHeaderBytes,
      framePayloadBytesMax,
      frameDataBytesMax,
      frameFieldsMax,
      guestWindowBytes,
      protocolVersion,
    }),
    ...constants('GUEST_', guestLimits),
    ...constants('VMM_', vmmLimits),
    ...constants('LOW_WATER_', lowWater),
    '};',
    `#define INTEGER_MAX UINT64_C(${integerMax})`,
    '',
    'enum frame_type {',
    ...constants('FRAME_', frameTypes, hex),
    '};',
    '',
    'enum field_tag {',
    ...constants('FIELD_', tags),
    `  FIELD_TAG_MAX = ${Math.max(...Object.values(tags))},`,
    '};',
    '',
    `enum { ${Object.entries(stdinModes)
      .map(([n, v]) => `STDIN_MODE_${screaming(n)} = ${v}`)
      .join(', ')} };`,
    `enum { ${Object.entries(ttyModes)
      .map(([n, v]) => `TTY_MODE_${screaming(n)} = ${v}`)
      .join(', ')} };`,
    `enum { ${Object.entries(fileTypes)
      .map(([n, v]) => `FILE_TYPE_${screaming(n)} = ${v}`)
      .join(', ')} };`,
    `enum path_intent { ${Object.entries(pathIntents)
      .map(([n, v]) => `INTENT_${screaming(n)} = ${v}`)
      .join(', ')} };`,
    '',
    ...predicate(
      'frame_type_is_known',
      Object.keys(frameTypes).map((name) => `FRAME_${screaming(name)}`),
    ),
    ...predicate(
      'frame_type_is_data',
      dataFrames.map((name) => `FRAME_${screaming(name)}`),
    ),
    ...predicate(
      'field_tag_is_known',
      Object.keys(tags).map((name) => `FIELD_${screaming(name)}`),
    ),
    ...predicate(
      'field_tag_is_integer',
      integers.map(([name]) => `FIELD_${screaming(name)}`),
    ),
    '#endif',
    '',
  ].join('\n');
}

const wanted = header();
if (process.argv.includes('--check')) {
  if (readFileSync(headerPath, 'utf8') !== wanted) {
    console.error('native/common/frames.gen.h is stale: run `node tools/gen-frames.ts`');
    process.exitCode = 1;
  }
} else {
  writeFileSync(headerPath, wanted);
}
