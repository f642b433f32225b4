/** Which paths the programs of sandboxes were refused. */
import { rfc3339 } from '@squash/base/clock';
import type { SandboxId } from '@squash/contract/ids';
import { pathsListMax, type RefusedPathInfo, type RefusedPathsAnswer } from '@squash/contract/paths';
import { type KeptPath, pathTraceOf, takePaths } from '../sandbox/path-trace.ts';
import type { Residents } from './residents.ts';

export interface PathsPage {
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

export interface Paths {
  /** Of what was refused before this call. */
  refused(id: SandboxId, page: PathsPage): Promise<RefusedPathsAnswer>;
}

export class LocalPaths implements Paths {
  readonly #residents: Residents;

  constructor(residents: Residents) {
    this.#residents = residents;
  }

  async refused(id: SandboxId, { after = 0, limit = pathsListMax }: PathsPage): Promise<RefusedPathsAnswer> {
    const sandbox = this.#residents.find(id);
    const trace = pathTraceOf(sandbox);
    if (trace === undefined) return { traced: false, items: [], truncated: false };
    await takePaths(sandbox);
    const items = trace.behind(after).slice(0, limit).map(shown);
    return { traced: true, items, truncated: trace.isTruncated };
  }
}

function shown({ id, atMs, path, intent }: KeptPath): RefusedPathInfo {
  const text = path.toString();
  const isText = Buffer.from(text).equals(path);
  return {
    id,
    at: rfc3339(atMs),
    path: text,
    ...(!isText && { path_base64: path.toString('base64') }),
    intent,
  };
}
