/** Which bucket the configuration names, and what it lacks to be used. */
import type { SettingName } from '@squash/contract/config';
import { Secret } from '@squash/base/secret';
import type { Config, S3Config } from './config.ts';
import type { SettingValue } from './values.ts';

/** @param textOf a variable’s text: those of AWS, which others share, are looked at only where there is a bucket */
export function bucketOf(
  textOf: (name: SettingName) => string,
  values: ReadonlyMap<string, SettingValue>,
): S3Config | undefined {
  if (textOf('SQUASH_S3_BUCKET') === '') return undefined;
  const prefix = textOf('SQUASH_S3_PREFIX').replace(/^\/+|\/+$/g, '');
  // Both from one pair: half of one and half of the other is nobody’s key.
  const isOwn = textOf('SQUASH_S3_ACCESS_KEY_ID') !== '' || textOf('SQUASH_S3_SECRET_ACCESS_KEY') !== '';
  return {
    bucket: textOf('SQUASH_S3_BUCKET'),
    endpoint: String(values.get('SQUASH_S3_ENDPOINT') ?? '') || undefined,
    region: textOf('SQUASH_S3_REGION'),
    prefix: prefix === '' ? '' : `${prefix}/`,
    keyId: textOf(isOwn ? 'SQUASH_S3_ACCESS_KEY_ID' : 'AWS_ACCESS_KEY_ID'),
    key: new Secret(textOf(isOwn ? 'SQUASH_S3_SECRET_ACCESS_KEY' : 'AWS_SECRET_ACCESS_KEY')),
  };
}

export function bucketProblem({ s3, ephemeralMs }: Pick<Config, 's3' | 'ephemeralMs'>): string | undefined {
  if (s3 === undefined) {
    if (ephemeralMs === undefined) return undefined;
    return 'SQUASH_EPHEMERAL keeps files in a bucket and SQUASH_S3_BUCKET names none: set it, or take SQUASH_EPHEMERAL away';
  }
  if (s3.keyId === '' || s3.key.reveal() === '')
    return 'SQUASH_S3_BUCKET is set and a part of its key is missing: set SQUASH_S3_ACCESS_KEY_ID and SQUASH_S3_SECRET_ACCESS_KEY, or those of AWS';
  if (!/^[\x21-\x7e]+$/.test(s3.keyId + s3.key.reveal()))
    return 'the key for SQUASH_S3_BUCKET contains a space or a character that no HTTP header can carry';
  if (!/^[a-z0-9-]{1,64}$/.test(s3.region)) return `SQUASH_S3_REGION is "${s3.region}", which is no region`;
  // Segments of dots are taken out of a path by servers and proxies, each in its own way.
  const parts = s3.prefix === '' ? [] : s3.prefix.slice(0, -1).split('/');
  if (s3.prefix.length > 512 || parts.some((part) => /^\.{0,2}$/.test(part)))
    return 'SQUASH_S3_PREFIX is too long, or has an empty part or one of dots';
  return undefined;
}
