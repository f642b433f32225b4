/** Addresses of previews, with and without a token in them. */
import type { PortOwner } from '../engine/ports.ts';
import { tokenParameter } from './link.ts';
import { localDomain } from './preview-host.ts';
import type { PreviewTokens, TokenTerms } from './preview-token.ts';

export interface PreviewPlace {
  /** The operator's. */
  readonly domain: string | undefined;
  /** Ports that are listened on; undefined where not. Asked each time: they are bound last. */
  readonly tcpPort: () => number | undefined;
  readonly tlsPort: () => number | undefined;
}

type PortOf = Pick<PortOwner, 'label'> & { readonly port: number };

export class PreviewLinks {
  readonly #tokens: PreviewTokens;
  readonly #place: PreviewPlace;

  constructor(tokens: PreviewTokens, place: PreviewPlace) {
    this.#tokens = tokens;
    this.#place = place;
  }

  /** Null where no browser can reach it. */
  urlOf({ label, port }: PortOf): string | null {
    const { domain, tcpPort, tlsPort } = this.#place;
    const tcp = tcpPort();
    const tls = tlsPort();
    const name = `${port}-${label}`;
    if (domain !== undefined && tls !== undefined) return `https://${name}.${domain}${suffix(tls, 443)}/`;
    if (tcp === undefined) return null;
    // Where a domain is named and we have no TLS, somebody in front of us has.
    if (domain !== undefined) return `https://${name}.${domain}/`;
    return `http://${name}.${localDomain}${suffix(tcp, 80)}/`;
  }

  linkOf(
    owner: PortOwner & { readonly port: number },
    terms: TokenTerms,
  ): { readonly url: string | null; readonly token: string } {
    const token = this.#tokens.sign(owner, terms);
    const url = this.urlOf(owner);
    return { token, url: url === null ? null : `${url}?${tokenParameter}=${token}` };
  }
}

function suffix(port: number, usual: number): string {
  return port === usual ? '' : `:${port}`;
}
