/** From a row to what the driver starts. */
import type { LayerDigest } from '@squash/contract/ids';
import type { SandboxRow } from '#store/rows.ts';
import type { StartSpec } from '../drivers/driver.ts';
import { hostnameOf } from './environment.ts';

/** On these trees and the row's trust layer on top of them. */
export function startSpec(row: SandboxRow, trees: readonly LayerDigest[]): StartSpec {
  return {
    id: row.id,
    instance: row.instance,
    hostname: hostnameOf(row.id),
    lowers: row.trust === null ? trees : [row.trust, ...trees],
    upperKind: row.upperKind,
    upperGeneration: row.upperGeneration,
    makesUpper: false,
    limits: row.limits,
  };
}
