/**
 * The program as `@cloudflare/codemode` would run it: namespaces on which every name can be called, and preludes. It stands inside a function of
 * ours, in whose scope there is nothing but the namespaces; they shadow the globals, whose tools they call.
 */
export interface Spaces {
  readonly providers: readonly string[];
  readonly connectors: readonly string[];
  readonly preludes: readonly string[];
}

/** @param program exactly one function expression */
export function encloseProgram(program: string, { providers, connectors, preludes }: Spaces): string {
  const names = [...providers, ...connectors];
  return `async () => {
return await ((${names.join(', ')}) => {
${preludes.join('\n;\n')}
;
${names.map((name) => `Object.freeze(${name});`).join('\n')}
return (${program}
)();
})(...(${String(makeSpaces)})(${JSON.stringify(providers)}, ${JSON.stringify(connectors)}));
}`;
}

type Tool = (...args: unknown[]) => Promise<unknown>;

/** Runs in the guest, as text: it can name nothing of this file. Without Proxy (vm2) only known tools can be called. */
function makeSpaces(providers: readonly string[], connectors: readonly string[]): readonly object[] {
  const rawOf = (name: string) => Reflect.get(globalThis, name) as Readonly<Record<string, Tool>>;
  const spaceOf = (find: (key: string) => Tool | undefined) =>
    new Proxy<Record<string, unknown>>(
      {},
      {
        get: (own, key) =>
          Object.hasOwn(own, key) ? own[key as string] : typeof key === 'string' ? find(key) : undefined,
      },
    );
  const provided = providers.map((name) => {
    const raw = rawOf(name);
    if (typeof Proxy === 'undefined') return { ...raw };
    return spaceOf((key) => {
      if (Object.hasOwn(raw, key)) return raw[key];
      // Asked for by `await` and JSON.stringify: a function there would be called by nobody who means a tool.
      if (key === 'then' || key === 'toJSON') return undefined;
      return () => Promise.reject(new Error('Tool "' + key + '" not found'));
    });
  });
  const connected = connectors.map((name) => {
    if (typeof Proxy === 'undefined') throw new Error('connectors need an engine with Proxy');
    const { callTool } = rawOf(name);
    return spaceOf((key) => {
      if (key === 'then' || key === 'toJSON' || callTool === undefined) return undefined;
      return async (args) => {
        const answer = await callTool(key, args);
        const { __codemode_control__: control, message } = (
          typeof answer === 'object' && answer !== null ? answer : {}
        ) as Readonly<Record<string, unknown>>;
        if (control === 'pause') throw new Error('__CODEMODE_PAUSE__');
        if (control === 'error') throw new Error(String(message));
        return answer;
      };
    });
  });
  return [...provided, ...connected];
}
