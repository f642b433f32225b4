/**
 * Part of the guest kernel: `Math.random` from a seed that the host sends. An engine that is copied from an image would otherwise
 * draw the same numbers in every run, and a run could not be repeated.
 */

/** Puts it in place and returns the function that seeds it: 32 hexadecimal digits. (sfc32, public domain.) */
export function installRandom(): (seed: string) => void {
  let a = 0;
  let b = 0;
  let c = 0;
  let count = 1;
  const next = (): number => {
    const sum = (a + b + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 4_294_967_296;
  };
  Object.defineProperty(next, 'name', { value: 'random' });
  Object.defineProperty(Math, 'random', {
    value: next,
    writable: false,
    enumerable: false,
    configurable: false,
  });
  return (seed) => {
    a = Number.parseInt(seed.slice(0, 8), 16) | 0;
    b = Number.parseInt(seed.slice(8, 16), 16) | 0;
    c = Number.parseInt(seed.slice(16, 24), 16) | 0;
    count = Number.parseInt(seed.slice(24, 32), 16) | 1;
    for (let round = 0; round < 15; round += 1) next();
  };
}
