/** `SQUASH_MIRROR_<WORD>`: an address in place of an official one, of the same layout. */
import { Failure } from '@squash/base/failure';
import type { Preset } from './preset.ts';

/** Without a slash at its end. @throws where it is no address */
export function mirrorOf(word: string): string | undefined {
  const name = `SQUASH_MIRROR_${word}`;
  const address = process.env[name];
  if (address === undefined || address === '') return undefined;
  if (!/^https?:\/\/[^\s]+$/.test(address) || !URL.canParse(address)) {
    throw new Failure('usage', `${name} is no address with http:// or https://`);
  }
  return address.replace(/\/+$/, '');
}

/** Those that a build of this preset asks: another mirror may have other packages. */
export function mirrorsOf({ sources }: Preset): readonly (string | undefined)[] {
  const words = { debian: 'DEBIAN', deb: 'DEBIAN', kernel: 'DEBIAN', npm: 'NPM', apk: 'ALPINE' } as const;
  return sources.map((source) => mirrorOf(source.kind === 'archive' ? source.mirror : words[source.kind]));
}
