/**
 * Part of the guest kernel: the built-ins that every engine has. Each is ahead of ES2025 in its own way; what only some of them have is taken
 * away, so that a program which runs on one runs on all.
 */

/** `X#` stands for `X.prototype`. What stays is listed in the shared suite, `edition-cases.ts`. */
export function laterMembers(): readonly string[] {
  return [
    'ArrayBuffer# immutable sliceToImmutable transferToImmutable',
    'Date# toTemporalInstant',
    'Error captureStackTrace',
    'Function# columnNumber fileName lineNumber',
    'Iterator concat zip zipKeyed',
    'Iterator# chunks includes join windows',
    'Map# getOrInsert getOrInsertComputed',
    'Math sumPrecise',
    // Of Annex B, and not in QuickJS: the last match of the realm.
    "RegExp $& $' $+ $1 $2 $3 $4 $5 $6 $7 $8 $9 $_ $` input lastMatch lastParen leftContext rightContext",
    'Uint8Array fromBase64 fromHex',
    'Uint8Array# setFromBase64 setFromHex toBase64 toHex',
    'WeakMap# getOrInsert getOrInsertComputed',
  ];
}

export function removeLaterMembers(): void {
  const lists = laterMembers();
  for (let at = 0; at < lists.length; at += 1) {
    const [place = '', ...keys] = (lists[at] ?? '').split(' ');
    const isPrototype = place.endsWith('#');
    const owner: unknown = Reflect.get(globalThis, isPrototype ? place.slice(0, -1) : place);
    const found: unknown = isPrototype
      ? (owner as { readonly prototype?: unknown } | undefined)?.prototype
      : owner;
    if ((typeof found !== 'object' && typeof found !== 'function') || found === null) continue;
    for (let key = 0; key < keys.length; key += 1) Reflect.deleteProperty(found, keys[key] ?? '');
  }
}
