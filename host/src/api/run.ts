/** `sandbox.run`: a sandbox for one command, gone when that has ended. */
import type { sandboxOperations } from '@squash/contract/operations/sandboxes';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import { createSandbox } from './create-sandbox.ts';
import type { EgressRules } from './network.ts';
import { execRequest } from './process-request.ts';

/** Longer than the command may run: a daemon that dies in between leaves a sandbox that ends by itself. */
const marginS = 300;

export function running(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): Handler<(typeof sandboxOperations)['sandbox.run']> {
  const { sandboxes, processes } = engine;
  return async ({ body, caller }) => {
    const { exec, sandbox: asked } = body;
    const lifetimeS = asked.lifetime_s ?? Math.ceil(exec.timeout_ms / 1_000) + marginS;
    const sandbox = { ...asked, lifetime_s: lifetimeS };
    const id = await createSandbox(engine, rules, { body: sandbox, caller, once: undefined });
    try {
      const { encoding } = exec;
      return json({
        sandbox: id,
        result: await processes.run(id, execRequest(exec), { once: undefined, encoding }),
      });
    } finally {
      // What it has said is the answer, whether or not its sandbox goes at once: a removal that fails is tried again.
      await sandboxes.destroy(id).catch(() => undefined);
    }
  };
}
