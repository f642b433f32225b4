/** How often a sandbox's connections to PID 1 were cut off on purpose: a command's is made anew, as often as that was. */
const counts = new WeakMap<object, number>();

export function cutOffsOf(sandbox: object): number {
  return counts.get(sandbox) ?? 0;
}

export function cutOff(sandbox: object): void {
  counts.set(sandbox, cutOffsOf(sandbox) + 1);
}
