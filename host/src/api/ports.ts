/** `port.*`: what listens in a sandbox, who may see it, links to it. */
import type { portOperations } from '@squash/contract/operations/ports';
import { limits } from '@squash/contract/limits';
import type { Port, PortLink, PortList } from '@squash/contract/ports';
import { rfc3339, systemClock } from '@squash/base/clock';
import type { Engine } from '../engine/engine.ts';
import type { PortOwner } from '../engine/ports.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import type { PreviewLinks } from '../preview/preview-links.ts';

/** `PreviewLinks` is one. */
export type Links = Pick<PreviewLinks, 'urlOf' | 'linkOf'>;

export function portHandlers(
  { ports }: Pick<Engine, 'ports'>,
  links: Links,
): HandlersOf<typeof portOperations> {
  const shown = (owner: PortOwner, port: number): Port => ({
    port,
    access: ports.access(owner.id, port),
    url: links.urlOf({ ...owner, port }),
  });
  return {
    'port.list': async ({ params: { id } }) => {
      const owner = ports.owner(id);
      const listening = await ports.listening(id);
      const items = listening.map((found) => ({
        ...shown(owner, found.port),
        addresses: [...found.addresses],
        process: found.process ?? null,
      }));
      return json({ items, next: null } satisfies PortList);
    },
    'port.set': ({ params: { id, port }, body }) => {
      ports.setAccess(id, port, body.access);
      return json(shown(ports.owner(id), port));
    },
    'port.url': ({ params: { id, port }, body, caller: { key } }) => {
      const expiresS = Math.floor(systemClock.wallMs() / 1_000) + body.expires_s;
      const { url, token } = links.linkOf({ ...ports.owner(id), port }, { expiresS, key });
      return json({ url, token, expires_at: rfc3339(expiresS * 1_000) } satisfies PortLink);
    },
    'port.wait': async ({ params: { id, port }, query, signal }) => {
      await ports.wait(id, port, { timeoutMs: query.timeout_ms ?? limits.portWaitMsDefault, signal });
      return json(shown(ports.owner(id), port));
    },
  };
}
