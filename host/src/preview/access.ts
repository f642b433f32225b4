/**
 * Who may see a port: decided from the request's head and what is known of its sender, pure.
 *
 * What a newcomer would get wrong: a browser sends a cookie, and comes from its user's own machine, also where a page of
 * somebody else made it ask. Pages of other sandboxes are such pages, and under an operator's domain even "same-site". So what is only
 * proven that way must come from a page of the same sandbox, or be somebody following a link. A bearer token or a link with a token proves more: no
 * foreign page knows them.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '@squash/contract/errors';
import type { PortAccess } from '@squash/contract/ports';
import type { Caller } from '../http/caller.ts';
import { parsePreviewHost, type PreviewName } from './preview-host.ts';

/** The strongest proof that the request brings, and whose it is. */
export type Proof =
  /** A credential of the daemon, or a preview token that no browser sends by itself. */
  | { readonly type: 'brought'; readonly caller: Caller }
  /** A cookie, or the user's own connection: where he is at the keyboard every page can use it. */
  | { readonly type: 'ambient'; readonly caller: Caller }
  | { readonly type: 'none'; readonly why: AppError };

export interface PreviewRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly name: PreviewName;
  readonly domains: readonly string[];
}

/** Why it is refused; undefined where it may pass. */
export function judge(access: PortAccess, proof: Proof, request: PreviewRequest): AppError | undefined {
  if (access === 'public' || proof.type === 'brought') return undefined;
  if (proof.type === 'none') return proof.why;
  if (isOwnPage(request) || isFollowedLink(request)) return undefined;
  return new AppError(
    'origin_refused',
    `A request from the web page "${(request.headers.origin ?? 'unknown').slice(0, 200)}" is refused: only pages of this sandbox may ask here`,
  );
}

/** No browser made it, or a page of the same sandbox did: of any of its ports. */
function isOwnPage({ headers, name, domains }: PreviewRequest): boolean {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  if (origin === undefined) return site === undefined || site === 'same-origin' || site === 'none';
  const [, authority = ''] = /^https?:\/\/([^/?#@\\]+)$/i.exec(origin) ?? [];
  const from = parsePreviewHost(authority, domains);
  return (
    from?.label === name.label && from.domain === name.domain && portOf(authority) === portOf(headers.host)
  );
}

/** As written; none is the scheme's own. */
function portOf(authority: string | undefined): string {
  return /:(\d+)$/.exec(authority ?? '')?.[1] ?? '';
}

/** In a window of its own, where the page that had the link can't see or cover it. */
function isFollowedLink({ method, headers }: PreviewRequest): boolean {
  return (
    (method === 'GET' || method === 'HEAD') &&
    headers.origin === undefined &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document'
  );
}
