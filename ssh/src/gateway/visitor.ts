/** One client of the gateway, until he has logged in and after: the daemon is asked, with what he has signed, and lends his token. */
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import { sshLimits } from '@squash/contract/ssh-limits';
import type { SshLogin } from '@squash/contract/ssh-keys';
import type { Login } from '../connection.ts';
import { ApiError, Daemon } from '../daemon.ts';

export class Visitor implements Disposable {
  readonly #socketPath: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #stack = new DisposableStack();

  constructor(socketPath: string, address: string) {
    this.#socketPath = socketPath;
    // As the audit shall tell it.
    this.#headers = { 'squash-ssh-peer': address.replace(/^::ffff:/, '') };
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  async login(request: AuthContext): Promise<Login | 'offered' | undefined> {
    if (request.method !== 'publickey') return undefined;
    using asker = this.#daemon(undefined);
    try {
      if (request.signature === undefined) return await this.#offer(asker, request);
      return await this.#login(asker, request);
    } catch (error) {
      if (error instanceof ApiError) return undefined;
      throw error;
    }
  }

  async #offer(asker: Daemon, { key }: PublicKeyAuthContext): Promise<'offered'> {
    await asker.json({ method: 'POST', path: '/v1/ssh/offer' }, { key: key.data.toString('base64') });
    return 'offered';
  }

  async #login(asker: Daemon, { blob, signature }: PublicKeyAuthContext): Promise<Login> {
    const { token, sandbox, user } = await asker.json<SshLogin>(
      { method: 'POST', path: '/v1/ssh/login' },
      { signed: blob?.toString('base64'), signature: signature?.toString('base64') },
    );
    const daemon = this.#stack.use(this.#daemon(token));
    // It holds only as long as it is used, so that a gateway that dies leaves none behind.
    const using = setInterval(() => {
      daemon.json({ method: 'GET', path: '/v1/keys/self' }).catch(() => {
        // It was taken back: the daemon ends what is open with it.
      });
    }, sshLimits.loginUseMs);
    this.#stack.defer(() => clearInterval(using));
    return { daemon, sandbox, user: user ?? undefined };
  }

  #daemon(token: string | undefined): Daemon {
    return new Daemon({ kind: 'unix', path: this.#socketPath }, token, this.#headers);
  }
}
