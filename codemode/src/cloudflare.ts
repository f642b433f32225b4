/**
 * An executor as `@cloudflare/codemode` calls one: `createCodeTool({ tools, executor })` and `codeMcpServer({ server, executor })` take it. JSON crosses,
 * errors are text, `logs` is always there.
 */
import { safeName } from './tools/names.ts';
import type { Executor, ResolvedProvider, ToolFn } from './types.ts';

type Functions = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

export interface CloudflareExecutor {
  execute(
    code: string,
    providers: readonly { readonly name: string; readonly fns: Functions }[] | Functions,
  ): Promise<{ readonly result: unknown; readonly error?: string; readonly logs: string[] }>;
}

/** Make the executor with `logStyle: 'cloudflare'`, and the lines are marked as there. */
export function toCloudflareExecutor(executor: Executor): CloudflareExecutor {
  return {
    async execute(code, providers) {
      const list = Array.isArray(providers)
        ? (providers as readonly { readonly name: string; readonly fns: Functions }[])
        : [{ name: 'codemode', fns: providers as Functions }];
      const named: ResolvedProvider[] = [];
      for (const { name, fns } of list) {
        const renamed = rename(name, fns);
        if (typeof renamed === 'string') return { result: undefined, error: renamed, logs: [] };
        named.push({ name, fns: renamed });
      }
      const { result, error, logs } = await executor.execute(code, named, { codec: 'json' });
      return { result, ...(error !== undefined && { error }), logs: [...(logs ?? [])] };
    },
  };
}

/** Names as the prompt shows them; two that become one are an error there as well. */
function rename(provider: string, fns: Functions): Readonly<Record<string, ToolFn>> | string {
  const renamed = new Map<string, string>();
  for (const name of Object.keys(fns)) {
    const safe = safeName(name);
    const other = renamed.get(safe);
    if (other !== undefined)
      return `Tool names "${other}" and "${name}" both sanitize to "${safe}" in provider "${provider}"`;
    renamed.set(safe, name);
  }
  return Object.fromEntries(
    [...renamed].map(([safe, name]): [string, ToolFn] => [safe, fns[name] as ToolFn]),
  );
}
