/**
 * Ten thousand connections of one sandbox, all open at once. Where the limit of open files is low one relay can't hold
 * them: then this also shows that the next one joins.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialerLayer } from '../../../tests/support/program-layer.ts';
import { HostServer } from '../../../tests/support/host-server.ts';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';
import { ScriptedEgress } from '../../../tests/support/scripted-egress.ts';

const connections = 10_000;
/** Dials of one sandbox under way at once: half of what the launcher takes. */
const dialsMax = 1_024;

await insideLauncher(import.meta.filename, ['default'], async (place) => {
  const lowers = [await dialerLayer(place), place.lower];

  test('ten thousand connections of one sandbox are open at once and each has its own bytes', {
    timeout: 120_000,
  }, async () => {
    await using server = await HostServer.start((socket) => void socket.pipe(socket));
    const waiting: (() => void)[] = [];
    let dials = 0;
    await using _egress = await ScriptedEgress.start(place.runDir, {
      async onOpen(connection) {
        if (dials === dialsMax) await new Promise<void>((resolve) => waiting.push(resolve));
        else dials += 1;
        assert.equal(await connection.dial(server.port), 0);
        const next = waiting.shift();
        if (next === undefined) dials -= 1;
        else next();
        connection.release();
      },
    });
    await using box = await launchSandbox(place, 'many', { lowers, openFilesMax: connections + 100 });
    const { output } = await box.sh(`/dialer hold 1.1.1.1 443 ${connections} </dev/null`);
    assert.equal(output, `${connections} open 0 failed\n`);
  });
});
