/** The operator's own presets: `egress-presets.json`. Apart from those we bring, which a client needs without any schema. */
import { z } from 'zod';
import { parsePattern, patternCharsMax } from './destination.ts';
import { isBuiltIn } from './presets.ts';

/** Presets in `egress-presets.json`, and hosts of one. */
const ownPresetLimits = { presetsMax: 256, hostsMax: 256 } as const;

const hostSchema = z
  .string()
  .max(patternCharsMax)
  .superRefine((text, context) => {
    const parsed = parsePattern(text);
    const problem = !parsed.ok
      ? parsed.problem
      : parsed.pattern.ports === undefined
        ? 'has no port: a preset brings its ports, "registry.example.com:443"'
        : undefined;
    if (problem !== undefined) context.addIssue({ code: 'custom', message: `hosts: "${text}" ${problem}` });
  });

const ownPresetSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, { error: 'name: small letters, digits and "-", 64 at most' }),
  summary: z.string().max(256).default(''),
  hosts: z.array(hostSchema).min(1).max(ownPresetLimits.hostsMax),
  date: z.string().max(32).default(''),
  sources: z.string().max(256).default(''),
});

/** What the operator adds, in the shape of those above. */
export const ownPresetsSchema = z
  .array(ownPresetSchema)
  .max(ownPresetLimits.presetsMax)
  .superRefine((list, context) => {
    const names = list.map(({ name }) => name);
    const twice = names.find((name, at) => isBuiltIn(name) || names.indexOf(name) !== at);
    if (twice !== undefined)
      context.addIssue({ code: 'custom', message: `the preset "${twice}" is there already` });
  });
