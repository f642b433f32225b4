/**
 * How large a value is to whoever walks it as a tree. A value of a kilobyte may hold one object in a thousand places, and that again in a thousand:
 * as JSON, or to a schema, it has no end. A list may claim a length of four thousand million.
 */

/** Ten times what the arguments of one call may be as text: what ordinary values come to. */
const unitsMax = 4_000_000;
/** Walks are recursive, and end as a fault of the stack at some thousands. */
const depthMax = 1000;

interface Walk {
  units: number;
  readonly above: Set<object>;
}

/** @throws TypeError where a value is larger than it looks by far */
export function refuseExpansive(value: unknown): void {
  if (!fits({ units: unitsMax, above: new Set() }, value))
    throw new TypeError('the value is too large, or nested too deeply, once it is written out');
}

function fits(walk: Walk, value: unknown): boolean {
  walk.units -= 1 + sizeOf(value);
  if (walk.units < 0) return false;
  if (typeof value !== 'object' || value === null) return true;
  // A cycle is the reader's to refuse; it is one step here.
  if (walk.above.has(value)) return true;
  if (walk.above.size >= depthMax) return false;
  walk.above.add(value);
  const whole = membersOf(value).every((member) => fits(walk, member));
  walk.above.delete(value);
  return whole;
}

/** Beside its members: holes of a list are none, and are written all the same. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length / 8;
  if (Array.isArray(value)) return value.length;
  return ArrayBuffer.isView(value) ? value.byteLength : 0;
}

function membersOf(value: object): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (ArrayBuffer.isView(value)) return [];
  if (value instanceof Map) return [...value.keys(), ...value.values()];
  return value instanceof Set ? [...value] : Object.entries(value).flat();
}
