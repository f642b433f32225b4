/** `module.list`. */
import type { moduleList } from '@squash/contract/operations/modules';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function moduleListHandler(engine: Engine): Handler<typeof moduleList> {
  return async ({ query }) => {
    const modules = await engine.modules();
    if (query.format === 'names') return json({ modules: modules.map(({ name }) => name) });
    return json(modules.map(({ name, size, location }) => ({ name, size, location })));
  };
}
