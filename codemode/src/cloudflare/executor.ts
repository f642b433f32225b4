/**
 * An executor as `@cloudflare/codemode` (0.5.6) calls one: `createCodeTool({ tools, executor })`, `codeMcpServer({ server, executor })` and its runtime
 * take it. Errors are text in its own words, `logs` is always there, nothing throws.
 */
import { isIdentifier, isReservedNamespace } from '../host/tool-set.ts';
import { chargeRun } from '../host/tool-context.ts';
import { refuseExpansive } from '../tools/expanse.ts';
import type { ExecuteResult, Executor, ResolvedProvider, ToolFn } from '../types.ts';
import { asTransported } from './transport.ts';
import { encloseProgram, type Spaces } from './enclosure.ts';

type Functions = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

export interface CloudflareProvider {
  readonly name: string;
  readonly fns: Functions;
  /** JavaScript of the embedder, run before the program where the namespaces exist; what it puts on them stays. */
  readonly prelude?: string;
}

export interface CloudflareConnector {
  readonly name: string;
  readonly binding: { callTool(method: string, args: unknown): Promise<unknown> };
}

export interface CloudflareExecutor {
  execute(
    code: string,
    providers: readonly CloudflareProvider[] | Functions,
    options?: { readonly connectors?: readonly CloudflareConnector[] },
  ): Promise<{ readonly result: unknown; readonly error?: string; readonly logs: string[] }>;
}

type Failure = string;

/** Make the executor with `logStyle: 'cloudflare'`, and the lines are marked as there. */
export function toCloudflareExecutor(executor: Executor): CloudflareExecutor {
  return {
    async execute(code, given, { connectors = [] } = {}) {
      const providers = isList(given) ? given : [{ name: 'codemode', fns: given }];
      const tools = toolsOf(providers, connectors);
      if (typeof tools === 'string') return { result: undefined, error: tools, logs: [] };
      const spaces = spacesOf(providers, connectors);
      const enclose = (program: string) => encloseProgram(program, spaces);
      return answerOf(await executor.execute(code, tools, { enclose }));
    },
  };
}

function isList(given: readonly CloudflareProvider[] | Functions): given is readonly CloudflareProvider[] {
  return Array.isArray(given);
}

function spacesOf(
  providers: readonly CloudflareProvider[],
  connectors: readonly CloudflareConnector[],
): Spaces {
  return {
    providers: providers.map(({ name }) => name),
    connectors: connectors.map(({ name }) => name),
    preludes: providers.flatMap(({ prelude }) => (prelude === undefined ? [] : [prelude])),
  };
}

function toolsOf(
  providers: readonly CloudflareProvider[],
  connectors: readonly CloudflareConnector[],
): readonly ResolvedProvider[] | Failure {
  const named = new Map<string, ResolvedProvider>();
  for (const { name, fns } of providers) {
    const wrong = wrongName('Provider', name);
    if (wrong !== undefined) return wrong;
    if (named.has(name)) return `Duplicate provider name "${name}"`;
    const renamed = rename(name, fns);
    if (typeof renamed === 'string') return renamed;
    named.set(name, { name, fns: renamed });
  }
  for (const { name, binding } of connectors) {
    const wrong = wrongName('Connector', name);
    if (wrong !== undefined) return wrong;
    if (named.has(name)) return `Duplicate name "${name}" (connector clashes with provider)`;
    const callTool: ToolFn = (method, args) => {
      chargeRun(() => refuseExpansive([method, args]));
      return binding.callTool(String(method), args);
    };
    named.set(name, { name, fns: { callTool } });
  }
  return [...named.values()];
}

/** Of its own harness; a program that was written for it may rely on none of them. */
const harnessNames = /^(?:__(?:dispatchers|connectors|logs)|WorkerEntrypoint|CodeExecutor)$/;

function wrongName(what: 'Provider' | 'Connector', name: string): Failure | undefined {
  if (isReservedNamespace(name) || harnessNames.test(name)) return `${what} name "${name}" is reserved`;
  if (!isIdentifier(name)) return `${what} name "${name}" is not a valid JavaScript identifier`;
  return undefined;
}

const reservedWords = new Set(
  'abstract arguments await boolean break byte case catch char class const continue debugger default delete do double else enum eval export extends false final finally float for function goto if implements import in instanceof int interface let long native new null package private protected public return short static super switch synchronized this throw throws transient true try typeof undefined var void volatile while with yield'.split(
    ' ',
  ),
);

/** A tool's name as the generated declarations show it, by the other package's rules, which differ from ours. */
function promptName(name: string): string {
  const plain = name.replace(/[-.\s]/g, '_').replace(/[^\w$]/g, '');
  if (plain === '') return '_';
  const begun = /^\d/.test(plain) ? `_${plain}` : plain;
  return reservedWords.has(begun) ? `${begun}_` : begun;
}

/** Two names that become one are an error there as well. */
function rename(provider: string, fns: Functions): Readonly<Record<string, ToolFn>> | Failure {
  const renamed = new Map<string, string>();
  for (const name of Object.keys(fns)) {
    const safe = promptName(name);
    const other = renamed.get(safe);
    if (other !== undefined)
      return `Tool names "${other}" and "${name}" both sanitize to "${safe}" in provider "${provider}"`;
    renamed.set(safe, name);
  }
  return Object.fromEntries([...renamed].map(([safe, name]) => [safe, transported(fns, name)]));
}

/** A call as it would be after its way over there: arguments and answer as its JSON carries them, of an error the message. */
function transported(fns: Functions, name: string): ToolFn {
  return async (...args) => {
    try {
      const given = chargeRun(() => {
        // It is about to be written as JSON.
        refuseExpansive(args);
        return asTransported(args) as unknown[];
      });
      return asTransported(await fns[name]?.(...given));
    } catch (failure) {
      throw new Error(failure instanceof Error ? failure.message : String(failure), { cause: failure });
    }
  };
}

function answerOf({ result, error, errorInfo, logs = [] }: ExecuteResult) {
  if (error === undefined) {
    try {
      // Whoever called writes it as JSON for a model.
      refuseExpansive(result);
      return { result, logs: [...logs] };
    } catch (failure) {
      return { result: undefined, error: (failure as Error).message, logs: [...logs] };
    }
  }
  return {
    result: undefined,
    error: errorInfo?.kind === 'timeout' ? 'Execution timed out' : error,
    logs: [...logs],
  };
}
