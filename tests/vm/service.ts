/** Squash as a service of the guest, for root or a user, and requests to it over its Unix socket. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { baseLayer, repository } from '../support/base-layer.ts';
import { attackTool } from '../security/tool.ts';
import { bootGuest, type GuestMachine, type GuestUser } from './guest.ts';

// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

/** The project's disk is read-only in the guest, so what has to be compiled is compiled before it is packed. */
export async function bootWithLayer(programs: readonly string[] = []): Promise<GuestMachine> {
  await promisify(execFile)(join(repository, 'tools/setup/setup.sh'), ['native']);
  const files = {
    '000-base-test.squashfs': await baseLayer(),
    '050-attack.squashfs': (await attackTool()).module,
  };
  return bootGuest({ files, programs });
}

export class Service {
  readonly vm: GuestMachine;
  readonly user: GuestUser;
  readonly dataDir: string;
  readonly #systemctl: string;

  constructor(vm: GuestMachine, user: GuestUser) {
    this.vm = vm;
    this.user = user;
    this.dataDir = user === 'root' ? '/var/lib/squash' : `/home/${user}/.local/share/squash`;
    this.#systemctl = user === 'root' ? 'systemctl' : 'systemctl --user';
  }

  /** Installs the unit as its own header says, with one layer, and waits until it answers. */
  async install(): Promise<void> {
    await this.setting('NODE_COMPILE_CACHE=/opt/node/commands');
    // A power cut would take what is not yet on the disk.
    const prepare = `set -e
mkdir -p ${this.dataDir}; cd ${this.dataDir}
mkdir -p modules
cp /opt/squash/vm/*.squashfs modules/
sync -f .`;
    if (this.user === 'root') {
      await this.vm.output(
        `${prepare}\ncp /opt/squash/packaging/systemd/squash.service /etc/systemd/system/`,
      );
    } else {
      await this.vm.output(`loginctl enable-linger ${this.user}`);
      await this.vm.until('test -S $XDG_RUNTIME_DIR/systemd/private', { user: this.user });
      const unit = '~/.config/systemd/user/squash.service';
      await this.run(
        `${prepare}\nmkdir -p ~/.config/systemd/user; cp /opt/squash/packaging/systemd/squash-user.service ${unit}; ln -s /opt/squash ~/squash`,
      );
    }
    await this.control('enable --now squash');
    await this.healthy();
  }

  /** One line for the unit's environment file; it holds from the next start. */
  async setting(line: string): Promise<void> {
    const folder = this.user === 'root' ? '/etc/squash' : '~/.config/squash';
    await this.run(`mkdir -p ${folder}; echo '${line}' >>${folder}/squash.env`);
  }

  async control(verb: string): Promise<string> {
    return this.run(`${this.#systemctl} ${verb}`);
  }

  async healthy(): Promise<void> {
    try {
      // A look at the file costs a tenth of a request.
      const asked = `test -S ${this.dataDir}/run/api.sock && ${this.#curl('GET', '/cgi-bin/health')}`;
      await this.vm.until(asked, { user: this.user });
    } catch (error) {
      const status = await this.vm.run(
        `${this.#systemctl} status --no-pager -l squash; journalctl -n 40 --no-pager`,
        {
          user: this.user,
        },
      );
      throw new Error(`the service does not answer\n${status.stdout}${status.stderr}`, { cause: error });
    }
  }

  async run(script: string): Promise<string> {
    return this.vm.output(script, { user: this.user });
  }

  /** A request that must succeed; its parsed body. */
  async call(method: string, path: string, body?: unknown): Promise<Json> {
    return this.callPath(method, `/cgi-bin/api${path}`, body);
  }

  /** The same for any path. */
  async callPath(method: string, path: string, body?: unknown): Promise<Json> {
    const text = await this.run(this.#curl(method, path, body));
    return text === '' ? undefined : JSON.parse(text);
  }

  /** A command's record in the sandbox. */
  async exec(id: string, cmd: string, timeout = 60): Promise<Json> {
    return this.call('POST', `/sandboxes/${id}/exec`, { cmd, timeout });
  }

  #curl(method: string, path: string, body?: unknown): string {
    const data = body === undefined ? '' : `--data-binary '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
    return `curl -sS --fail-with-body --max-time 240 -X ${method} ${data} --unix-socket ${this.dataDir}/run/api.sock 'http://localhost${path}'`;
  }
}
