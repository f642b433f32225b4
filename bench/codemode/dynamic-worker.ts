/**
 * `@cloudflare/codemode`'s own executor, as its documents use it: a Worker that loads each program as a Worker of its own. Runs in workerd, never in Node;
 * a request is one run.
 */
import { DynamicWorkerExecutor } from '@cloudflare/codemode';

type Loader = ConstructorParameters<typeof DynamicWorkerExecutor>[0]['loader'];

export default {
  async fetch(request: Request, env: { readonly LOADER: Loader }): Promise<Response> {
    const executor = new DynamicWorkerExecutor({ loader: env.LOADER });
    const add = async (a: unknown, b: unknown) => Number(a) + Number(b);
    return Response.json(await executor.execute(await request.text(), [{ name: 'codemode', fns: { add } }]));
  },
};
