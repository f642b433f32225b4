/**
 * Debian's docker-registry on the same blobs as another one, as Docker Hub works: it wants a token from a service of another host, which
 * gives one for what is public to everybody, and for `private/…` to who has a login. The registry checks the service's signature.
 */
import { execFileSync } from 'node:child_process';
import { createPrivateKey, sign, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { join } from 'node:path';
import { DockerRegistry } from './docker-registry.ts';
import { hostOf, type TestRegistry } from './registry.ts';

const service = 'registry.test';
const login = `Basic ${Buffer.from('squash:another').toString('base64')}`;

export class TokenRegistry implements AsyncDisposable {
  /** What the token service was asked, and as whom. */
  readonly asked: { readonly scope: string | null; readonly authorization: string | undefined }[] = [];
  readonly #directory: string;
  readonly #tokens: Server;
  readonly #behind: DockerRegistry;

  private constructor(parts: { directory: string; tokens: Server; behind: DockerRegistry }) {
    this.#directory = parts.directory;
    this.#tokens = parts.tokens;
    this.#behind = parts.behind;
    this.#tokens.on('request', (asked: IncomingMessage, answer) => {
      const token = this.#token(asked);
      answer.writeHead(token === undefined ? 401 : 200, { 'content-type': 'application/json' });
      answer.end(JSON.stringify({ token }));
    });
  }

  static async start({ directory }: TestRegistry): Promise<TokenRegistry> {
    const [key, certificate] = [join(directory, 'token.key'), join(directory, 'token.pem')];
    const subject = ['-nodes', '-days', '2', '-subj', '/CN=tokens'];
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'rsa:2048', '-keyout', key, '-out', certificate, ...subject],
      {
        stdio: 'ignore',
      },
    );
    const tokens = createServer().listen(0, '127.0.0.1');
    await once(tokens, 'listening');
    const realm = `http://${hostOf(tokens)}/token`;
    const auth = { token: { realm, service, issuer: service, rootcertbundle: certificate } };
    return new TokenRegistry({ directory, tokens, behind: await DockerRegistry.start({ directory, auth }) });
  }

  get host(): string {
    return `localhost:${this.#behind.port}`;
  }

  get tokenHost(): string {
    return hostOf(this.#tokens);
  }

  /** The row of an auth file. */
  get auth(): object {
    return { [this.host]: { auth: login.slice('Basic '.length) } };
  }

  #token({ url = '', headers }: IncomingMessage): string | undefined {
    const { searchParams } = new URL(url, 'http://tokens');
    const scope = searchParams.get('scope');
    const { authorization } = headers;
    this.asked.push({ scope, authorization });
    const [type, name = '', actions = ''] = scope?.split(':') ?? [];
    if (name.startsWith('private/') && authorization !== login) return undefined;
    const nowS = Math.floor(Date.now() / 1_000);
    const claims = {
      iss: service,
      aud: searchParams.get('service'),
      sub: '',
      iat: nowS - 10,
      nbf: nowS - 10,
      exp: nowS + 300,
      jti: `${this.asked.length}`,
      access: [{ type, name, actions: actions.split(',') }],
    };
    const certificate = new X509Certificate(readFileSync(join(this.#directory, 'token.pem')));
    const head = { typ: 'JWT', alg: 'RS256', x5c: [certificate.raw.toString('base64')] };
    const text = [head, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    const key = createPrivateKey(readFileSync(join(this.#directory, 'token.key')));
    return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tokens.closeAllConnections();
    this.#tokens.close();
    await this.#behind[Symbol.asyncDispose]();
  }
}
