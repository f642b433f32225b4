/** One request for each of many, some at a time. */

/** A sandbox serves 24. */
const atOnce = 8;

/** @throws with the first failure, when nothing of it is under way any more */
export async function eachOf<Item>(
  items: readonly Item[],
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const rest = items.values();
  const work = async (): Promise<void> => {
    for (const item of rest) {
      if (failures.length > 0) return;
      await act(item).catch((cause: unknown) => failures.push(cause));
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
  if (failures.length > 0) throw failures[0];
}
