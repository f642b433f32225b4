/**
 * Host names of sandboxes' ports: `<port>-<label>.<domain>`.
 *
 * What a newcomer would get wrong: a name that begins like one (`0-dev.localhost`, `99999-dev.localhost`) and is none is
 * still not the API's. Whoever asks `isPreviewName` decides by the name's form alone where a request goes, and only then
 * `parsePreviewHost` says whether it names a port.
 */
import { type HostLabel, hostLabelSchema } from '@squash/contract/ids';
import { hostName } from '../http/gate.ts';

export interface PreviewName {
  readonly port: number;
  readonly label: HostLabel;
  readonly domain: string;
}

/** Where a browser finds loopback without DNS. */
export const localDomain = 'localhost';

/** Whether a request with this `Host` is for a sandbox's port, whatever becomes of it there. */
export function isPreviewName(host: string | undefined, domains: readonly string[]): boolean {
  const first = firstLabel(host, domains);
  return first !== undefined && /^\d+-/.test(first.text);
}

/** Undefined where no sandbox can have this name. */
export function parsePreviewHost(
  host: string | undefined,
  domains: readonly string[],
): PreviewName | undefined {
  const first = firstLabel(host, domains);
  const [, digits = '', rest = ''] = /^([1-9]\d{0,4})-(.+)$/.exec(first?.text ?? '') ?? [];
  const port = Number(digits);
  const label = hostLabelSchema.safeParse(rest);
  if (first === undefined || port > 65_535 || !label.success) return undefined;
  return { port, label: label.data, domain: first.domain };
}

/** The one label in front of a domain of ours. */
function firstLabel(
  host: string | undefined,
  domains: readonly string[],
): { readonly text: string; readonly domain: string } | undefined {
  const name = host === undefined ? undefined : hostName(host);
  const domain = domains.find((each) => name?.endsWith(`.${each}`) === true);
  if (name === undefined || domain === undefined) return undefined;
  const text = name.slice(0, -domain.length - 1);
  return text.includes('.') ? undefined : { text, domain };
}
