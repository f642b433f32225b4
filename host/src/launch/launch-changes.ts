/** What the launcher is asked about the changes of a box: the list, a page at a time, and bringing names to the host. */
import { type LaunchClient, treeMsMax } from './launch-client.ts';
import { type FieldValue, type LaunchMount, type LaunchUpper, mountField } from './launch-fields.ts';
import { type LayerDifference, parseDifference, pathBytesMax } from './layer-difference.ts';

/** A place of a box: what it has written there lies in its upper at the same path. */
export interface LaunchPlace {
  readonly upper: Pick<LaunchUpper, 'path' | 'kind'>;
  readonly place: LaunchMount;
}

export interface AppliedName {
  readonly path: string;
  readonly outcome: string;
  readonly reason: string | undefined;
}

type Asks = Pick<LaunchClient, 'ask'>;

function placeFields({ upper, place }: LaunchPlace): FieldValue[] {
  return [['upper', upper.path], ['upperKind', upper.kind], mountField(place)];
}

/** Of a request for one file. */
export function fileFields(asked: LaunchPlace, path: string): FieldValue[] {
  return [...placeFields(asked), ['path', path]];
}

/** By path and behind `after`. @throws host_path_refused, snapshot_path_too_long, launch_failed */
export async function launchChanges(
  launcher: Asks,
  asked: LaunchPlace & { readonly after: Uint8Array | undefined; readonly entriesMax: number },
  giveUp: AbortSignal,
): Promise<{ readonly entries: readonly LayerDifference[]; readonly next: Uint8Array | undefined }> {
  const after: FieldValue[] = asked.after === undefined ? [] : [['after', asked.after]];
  const fields: FieldValue[] = [...placeFields(asked), ...after, ['inodesMax', asked.entriesMax]];
  const { ok, entries } = await launcher.ask('treeDiff', fields, { answerMsMax: treeMsMax, giveUp });
  return { entries: entries.map(parseDifference), next: ok.optionalBytes('after', pathBytesMax) };
}

/**
 * In the order of `paths`, which are relative. `changedUs`: what somebody has changed on the host later than this is left; 0: nothing is.
 * @throws host_path_refused, disk_full, launch_failed
 */
export async function launchApply(
  launcher: Asks,
  asked: LaunchPlace & {
    readonly paths: readonly string[];
    readonly changedUs: number;
    readonly outside: boolean;
    readonly held: boolean;
  },
): Promise<readonly AppliedName[]> {
  const fields: FieldValue[] = [
    ...placeFields(asked),
    ...asked.paths.map((path): FieldValue => ['path', path]),
    ['changedUs', asked.changedUs],
    ...(asked.outside ? [['outside', 1] as const] : []),
    ...(asked.held ? [['held', 1] as const] : []),
  ];
  const { entries } = await launcher.ask('treeApply', fields, { answerMsMax: treeMsMax });
  return entries.map((reader) => ({
    path: reader.text('path', pathBytesMax),
    outcome: reader.text('change', 16),
    reason: reader.optionalText('message', 512),
  }));
}
