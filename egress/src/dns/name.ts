/**
 * Which queried names are host names, in the one form that everything behind DNS knows: lower case, A-labels, no
 * trailing dot.
 *
 * Underscores are letters here (`_sip._tcp`, and hosts of careless people). A name whose last label is a number is
 * none: programs that read `127.1` or `0x7f000001` as an address would go elsewhere than policy thinks.
 */
const label = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
const number = /^(\d+|0x[0-9a-f]*)$/;

/** Of the text in the wire without its length bytes. Behind it stand 255 bytes of wire form. */
const nameCharactersMax = 253;

/** `undefined` where these labels are no host name: the root, odd bytes, numbers at the end. */
export function hostName(labels: readonly string[]): string | undefined {
  if (labels.length === 0) return undefined;
  const name = labels.join('.').toLowerCase();
  if (name.length > nameCharactersMax) return undefined;
  // A label that contains a dot would look like two.
  const parts = name.split('.');
  if (parts.length !== labels.length || !parts.every((part) => label.test(part))) return undefined;
  return number.test(parts.at(-1) ?? '') ? undefined : name;
}

/** The address that a reverse name asks about, as bytes; `undefined` where it is none. */
export function reverseAddress(name: string): Uint8Array | undefined {
  const parts = name.split('.');
  if (name.endsWith('.in-addr.arpa') && parts.length === 6) {
    const bytes = parts.slice(0, 4).reverse();
    if (!bytes.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)) return undefined;
    return Uint8Array.from(bytes, Number);
  }
  if (name.endsWith('.ip6.arpa') && parts.length === 34) {
    const digits = parts.slice(0, 32).reverse();
    if (!digits.every((part) => /^[0-9a-f]$/.test(part))) return undefined;
    return Uint8Array.from({ length: 16 }, (_, at) =>
      Number.parseInt(`${digits[2 * at] ?? ''}${digits[2 * at + 1] ?? ''}`, 16),
    );
  }
  return undefined;
}
