/** For tests: a home with a repository in it, places for policy files, and what a run there would get. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { PathLevel } from '@squash/contract/path-levels';
import { levelAt } from '../levels.ts';
import { checkPolicy, type PolicyFile } from './file-schema.ts';
import { findPolicyFiles } from './files.ts';
import type { PolicyPlaces } from '../policy-places.ts';
import { hostPlaces, type Resolution, resolvePolicy } from './resolve.ts';
import { addTrust, trustFile } from './trust.ts';

export class Scene implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'box-policy-')));
  readonly home = this.directory('home/me');
  readonly repository = this.directory('home/me/work/repo');
  readonly places: PolicyPlaces = {
    managed: this.directory('etc/squash'),
    user: this.directory('home/me/.config/squash'),
    repository: this.repository,
    state: join(this.root, 'home/me/.local/state/squash/box'),
  };

  directory(name: string): string {
    const path = join(this.root, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** @param name below the scene; `~/` is the home, `./` the repository */
  write(name: string, text: string | object): string {
    const path = this.path(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, typeof text === 'string' ? text : JSON.stringify({ version: 1, ...text }), {
      mode: 0o644,
    });
    return path;
  }

  path(name: string): string {
    if (name.startsWith('~/')) return join(this.home, name.slice(2));
    return name.startsWith('./') ? join(this.repository, name.slice(2)) : join(this.root, name);
  }

  managed(policy: object): void {
    this.write('etc/squash/box.jsonc', policy);
  }

  user(policy: object): void {
    this.write('~/.config/squash/box.jsonc', policy);
  }

  project(policy: object): void {
    this.write('./.squash/box.jsonc', policy);
  }

  async trust(): Promise<void> {
    const file = findPolicyFiles(this.places).find(({ origin }) => origin === 'project');
    if (file === undefined) throw new Error('the project has no file');
    await addTrust(trustFile(this.places.state), {
      path: file.path,
      sha256: file.sha256,
      added: '2026-01-01T00:00:00Z',
    });
  }

  resolve(flags?: object): Resolution {
    const { home, repository, places } = this;
    return resolvePolicy(
      {
        places,
        grounds: { home, repository },
        defaults: { paths: { '/usr': 'ro', [home]: 'hidden', [repository]: 'cow' } },
      },
      { files: [], flags: flags && policyOf(flags) },
    );
  }

  /** As the API would be told. */
  level(name: string, flags?: object): PathLevel {
    const { paths } = hostPlaces(this.resolve(flags).policy);
    return levelAt(new Map(Object.entries(paths)), this.path(name));
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

export function policyOf(policy: object): PolicyFile {
  return checkPolicy({ value: { version: 1, ...policy }, lineOf: () => undefined }, 'test');
}
