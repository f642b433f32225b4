/**
 * Work in this program's own thread that may go on for ever: an expression of a schema over a text that a program chose. Node can end it from
 * another thread where it runs by way of a script with a time-out; that costs a tenth of a millisecond.
 */
import vm from 'node:vm';

const place = vm.createContext({ work: (): void => {} });
const script = new vm.Script('work()');

/** What an expression takes over a megabyte where it is a good one, many times. */
const msMax = 500;

/** @throws TypeError where it takes too long, and what `work` throws */
export function bounded<T>(work: () => T): T {
  let ended: { readonly value: T } | { readonly failure: unknown } | undefined;
  // Kept, as a check may lead to another.
  const { work: outer } = place;
  place['work'] = () => {
    try {
      ended = { value: work() };
    } catch (failure) {
      ended = { failure };
    }
  };
  try {
    script.runInContext(place, { timeout: msMax });
  } catch {
    // An error of the other realm: it has no other to give than that the time is over.
  } finally {
    place['work'] = outer;
  }
  if (ended === undefined) throw new TypeError(`the check takes longer than ${msMax}ms`);
  if ('failure' in ended) throw ended.failure;
  return ended.value;
}
