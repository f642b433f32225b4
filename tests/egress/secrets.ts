/** The secrets of the attacked sandbox and of the one whose secret may go everywhere. */

/** With characters that every way of escaping touches. */
export const strict = { placeholder: 'squash-strict-placeholder-1', value: 'real-strict-value+/&"=x9z' };
export const wide = { placeholder: 'squash-wide-placeholder-22', value: 'real-wide-value+/&"=x9z0' };
export const secretValues: readonly string[] = [strict.value, wide.value];
