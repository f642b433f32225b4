/** `health`: the original's fields; Tailscale is a part that does not exist, so it is always off. */
import type { health } from '@squash/contract/operations/daemon';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function healthHandler(engine: Engine): Handler<typeof health> {
  return async () => {
    const { sandboxes, modules, baseReady } = await engine.health();
    return json({
      status: 'ok',
      backend: 'chroot',
      tailscale: { status: 'off', ip: null },
      sandboxes,
      modules,
      base_ready: baseReady,
    });
  };
}
