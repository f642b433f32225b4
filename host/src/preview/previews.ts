/**
 * Serves the hosts that are ports of sandboxes: who asks, which sandbox, then the exchange or the tunnel. Whatever comes with such a
 * `Host` ends here; nothing of the API is reachable by it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { AppError, errorCatalog } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { includesScope } from '@squash/contract/scope';
import type { Ports } from '../engine/ports.ts';
import { type Audit, auditLine } from '../http/audit.ts';
import { anybody, type Caller, sees } from '../http/caller.ts';
import { asAppError } from '../http/problem.ts';
import type { OtherHosts, Sender } from '../http/other-hosts.ts';
import { judge, type Proof } from './access.ts';
import { errorPage, wantsHtml } from './error-page.ts';
import { type Exchange, exchange } from './exchange.ts';
import { requestHeaders, tokenCookies, tokenHeader } from './headers.ts';
import { type Link, redirect, withoutTokens } from './link.ts';
import { isPreviewName, localDomain, parsePreviewHost, type PreviewName } from './preview-host.ts';
import type { PreviewTokens, TokenTerms } from './preview-token.ts';
import { tunnel, type Visitor } from './tunnel.ts';
import { Visitors } from './visitors.ts';

export interface PreviewsOptions {
  readonly ports: Ports;
  readonly tokens: PreviewTokens;
  /** The operator's, beside `localhost`. */
  readonly domain: string | undefined;
  /** Whose credential of the daemon the request brings, or why it brings none. */
  readonly callerOf: (sender: Sender, incoming: IncomingMessage) => Caller | AppError;
  /** Whether `Authorization` holds a credential of the daemon, good or not. */
  readonly isCredential: (authorization: string) => boolean;
  /** Of the API: a link is worth as much as the key with which it was made. */
  readonly holdsKey: (key: string) => boolean;
  readonly audit: Audit;
  readonly stopping: AbortSignal;
  readonly log: Log;
}

interface Visit {
  readonly name: PreviewName;
  readonly id: SandboxId;
  readonly target: string;
  /** It was opened by this one: the browser gets the token as a cookie, and the address without it. */
  readonly link: Link | undefined;
}

export class Previews implements OtherHosts {
  readonly #options: PreviewsOptions;
  readonly #domains: readonly string[];
  readonly #visitors = new Visitors();
  /** Whose visit of what the audit was told of last, on a connection. */
  readonly #told = new WeakMap<Socket, string>();

  constructor(options: PreviewsOptions) {
    this.#options = options;
    this.#domains = [localDomain, ...(options.domain === undefined ? [] : [options.domain])];
  }

  has(host: string | undefined): boolean {
    return isPreviewName(host, this.#domains);
  }

  /** HTTP/2 without TLS would be a second language inside: who asks for it is answered in this one. */
  takesUpgrade({ method, headers }: IncomingMessage): boolean {
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
    return (
      method === 'GET' &&
      !hasBody &&
      /^[\w.+-]+(\/[\w.+-]+)?$/.test(headers.upgrade ?? '') &&
      !/^h2c?$/i.test(headers.upgrade ?? '')
    );
  }

  async serve(incoming: IncomingMessage, outgoing: ServerResponse, sender: Sender): Promise<void> {
    try {
      const visit = this.#admit(incoming, sender);
      if (visit.link !== undefined && isPage(incoming)) {
        redirect(outgoing, { ...visit.link, target: visit.target, scheme: schemeOf(incoming), nowS: nowS() });
        incoming.resume();
        return;
      }
      const wanted = await this.#exchange(incoming, visit);
      if (sender.expectsContinue) outgoing.writeContinue();
      await exchange(wanted, outgoing);
    } catch (thrown) {
      const error = this.#known(thrown);
      if (outgoing.headersSent) {
        outgoing.destroy();
        return;
      }
      const { status, headers, body } = errorPage(error, incoming.headers);
      outgoing.writeHead(status, {
        ...headers,
        'content-length': Buffer.byteLength(body),
        ...(incoming.complete ? {} : { connection: 'close' }),
      });
      outgoing.end(body);
      incoming.resume();
    }
  }

  /** @throws what the visitor is to be told, where nothing was sent yet */
  async upgrade(incoming: IncomingMessage, visitor: Visitor, sender: Sender): Promise<void> {
    try {
      const visit = this.#admit(incoming, sender);
      const protocol = incoming.headers.upgrade ?? '';
      await tunnel(await this.#exchange(incoming, visit, protocol), visitor, protocol);
    } catch (thrown) {
      throw this.#known(thrown);
    }
  }

  #known(thrown: unknown): AppError {
    const error = asAppError(thrown);
    if (error.code === 'internal') this.#options.log.error('preview.fault', { error: error.cause });
    return error;
  }

  /** @throws why the visitor is refused */
  #admit(incoming: IncomingMessage, sender: Sender): Visit {
    try {
      return this.#judged(incoming, sender);
    } catch (thrown) {
      const error = asAppError(thrown);
      const { status } = errorCatalog[error.code];
      const line = auditLine({ ...visitOf(sender), status, error, caller: anybody });
      if (line.decision === 'refused') this.#options.audit.writeBounded(line);
      throw error;
    }
  }

  #judged(incoming: IncomingMessage, sender: Sender): Visit {
    checkHead(incoming);
    if (this.#options.stopping.aborted)
      throw new AppError('shutting_down', 'The daemon is stopping: try again later');
    const { headers, method = 'GET', url = '/' } = incoming;
    const name = parsePreviewHost(headers.host, this.#domains);
    const { target, tokens } = withoutTokens(url);
    const found = name === undefined ? undefined : this.#options.ports.byLabel(name.label);
    const terms = (token: string): TokenTerms | undefined => {
      if (name === undefined || found === undefined) return undefined;
      const said = this.#options.tokens.check({ ...found, port: name.port }, token, nowS());
      return said === undefined || said.key === null || this.#options.holdsKey(said.key) ? said : undefined;
    };
    const [token = ''] = tokens;
    const link = terms(token);
    const proof = this.#proof(incoming, sender, { link: tokens[0], terms, owner: found?.owner });
    // Who may not see it does not learn whether there is such a sandbox, either.
    if (name === undefined || found === undefined)
      throw proof.type === 'none' ? proof.why : unknown(headers.host);
    const access = this.#options.ports.access(found.id, name.port);
    const refused = judge(access, proof, { method, headers, name, domains: this.#domains });
    if (refused !== undefined) throw refused;
    this.#visitors.admit(incoming.socket, found.id);
    if (access !== 'public' && proof.type !== 'none') {
      sender.welcome(proof.caller);
      this.#tell(incoming.socket, found.id, { caller: proof.caller, sender });
    }
    const { id } = found;
    return { name, id, target, link: link === undefined ? undefined : { token, expiresS: link.expiresS } };
  }

  /** One line for a connection, as long as it is the same visitor's: a page is a hundred requests. */
  #tell(
    socket: Socket,
    sandbox: SandboxId,
    { caller, sender }: { readonly caller: Caller; readonly sender: Sender },
  ): void {
    const visit = `${sandbox} ${caller.key} ${caller.owner} ${caller.held?.id}`;
    if (this.#told.get(socket) === visit) return;
    this.#told.set(socket, visit);
    const line = auditLine({ ...visitOf(sender), sandbox, status: 200, caller });
    // Whoever has a credential has his line, whatever those without one do.
    if (line.caller.kind === 'unknown') this.#options.audit.writeBounded(line);
    else this.#options.audit.write(line);
  }

  #proof(incoming: IncomingMessage, sender: Sender, { link, terms, owner }: Tokens): Proof {
    const { headers } = incoming;
    const best = (tokens: readonly unknown[]): TokenTerms | undefined =>
      tokens.map((token) => (typeof token === 'string' ? terms(token) : undefined)).find(Boolean);
    const brought = best([link, headers[tokenHeader]]);
    if (brought !== undefined) return { type: 'brought', caller: bearerOf(brought) };
    const caller = this.#options.callerOf(sender, incoming);
    if (!(caller instanceof AppError) && mayUse(caller, owner)) {
      const isBearer = this.#options.isCredential(headers.authorization ?? '');
      return { type: isBearer ? 'brought' : 'ambient', caller };
    }
    const cookies = tokenCookies(headers.cookie).slice(0, cookiesMax);
    const kept = best(cookies);
    if (kept !== undefined) return { type: 'ambient', caller: bearerOf(kept) };
    return { type: 'none', why: link === undefined ? linkMissing(caller) : linkOver() };
  }

  async #exchange(incoming: IncomingMessage, visit: Visit, upgrade?: string): Promise<Exchange> {
    const { ports, isCredential, stopping } = this.#options;
    const { id, name, target } = visit;
    const stream = await ports.dial(id, name.port);
    if (incoming.socket.destroyed) stream.destroy();
    const headers = requestHeaders(incoming, {
      address: incoming.socket.remoteAddress,
      scheme: schemeOf(incoming),
      isCredential,
      ...(upgrade === undefined ? {} : { upgrade }),
    });
    const onBytes = (): void => ports.used(id);
    return { incoming, port: name.port, target, headers, stream, onBytes, stopping };
  }
}

interface Tokens {
  readonly link: string | undefined;
  readonly terms: (token: string) => TokenTerms | undefined;
  /** Of the sandbox; undefined where there is none. */
  readonly owner: string | undefined;
}

/** Nobody knows who he is; his connection ends with the key all the same. */
const bearerOf = ({ key }: TokenTerms): Caller => ({ ...anybody, key });

const visitOf = ({ asked }: Sender) => ({ ...asked, operation: 'preview.visit', durationMs: 0 });

/** Ports are for those who may run commands. */
function mayUse(caller: Caller, owner: string | undefined): boolean {
  return (
    includesScope(caller.scope, 'exec') && (owner === undefined ? caller.owner === null : sees(caller, owner))
  );
}

/** Cookies of our name that are looked at: another preview of the domain may have set some. */
const cookiesMax = 8;

/** @throws invalid_request */
function checkHead({ url = '', headersDistinct }: IncomingMessage): void {
  if (!url.startsWith('/')) throw new AppError('invalid_request', 'the request target must be a path');
  if ((headersDistinct['host']?.length ?? 0) > 1) {
    throw new AppError('invalid_request', 'the request names more than one Host');
  }
}

function unknown(host: string | undefined): AppError {
  return new AppError('sandbox_not_found', `No sandbox has the host name "${(host ?? '').slice(0, 200)}"`);
}

function linkOver(): AppError {
  return new AppError(
    'unauthorized',
    'The link is not of this port, or its time is over: ask for another one (squash url SANDBOX PORT)',
  );
}

/** @param caller one who may not see this, or the daemon's own refusal */
function linkMissing(caller: Caller | AppError): AppError {
  return new AppError(
    caller instanceof AppError ? caller.code : 'unauthorized',
    'Only who has a link with a token may see this: "squash url SANDBOX PORT" prints one. A program sends the token as Squash-Preview-Token, or a credential of the daemon as Authorization: Bearer',
  );
}

/** Somebody at a browser opens it. */
function isPage({ method, headers }: IncomingMessage): boolean {
  return (method === 'GET' || method === 'HEAD') && wantsHtml(headers);
}

/** Behind a proxy that ends TLS only that knows. It decides nothing but forms of names and addresses. */
function schemeOf({ socket, headers }: IncomingMessage): 'http' | 'https' {
  return 'encrypted' in socket || headers['x-forwarded-proto'] === 'https' ? 'https' : 'http';
}

function nowS(): number {
  return Math.floor(systemClock.wallMs() / 1_000);
}
