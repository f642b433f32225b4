/** Bytes and the text that JSON has for them, in every runtime. */

export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += chunkBytes)
    binary += String.fromCharCode(...bytes.subarray(at, at + chunkBytes));
  return btoa(binary);
}

/** As many arguments as every engine takes. */
const chunkBytes = 8_192;

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
