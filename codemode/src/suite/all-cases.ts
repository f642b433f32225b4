/** Every row of the shared suite, by group. */
import type { Case } from './case.ts';
import { behaviourCases } from './behaviour-cases.ts';
import { editionCases } from './edition-cases.ts';
import { limitCases } from './limit-cases.ts';
import { boundaryAttacks } from './red-team-boundary.ts';
import { protocolAttacks } from './red-team-protocol.ts';
import { realmAttacks } from './red-team-realm.ts';
import { seedCases } from './seed-cases.ts';
import { toolCases } from './tool-cases.ts';

export const allCases: Readonly<Record<string, readonly Case[]>> = {
  seed: seedCases,
  behaviour: [...behaviourCases, ...editionCases],
  tools: toolCases,
  limits: limitCases,
  'red team, realm': realmAttacks,
  'red team, boundary': boundaryAttacks,
  'red team, protocol': protocolAttacks,
};
