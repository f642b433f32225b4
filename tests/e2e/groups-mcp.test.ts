/** The tools of an agent's channel, from inside of a real sandbox: a real daemon's built program, its network and its store. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { agentTests, GroupScene } from '../support/group-scene.ts';

let scene: GroupScene;
before(async () => {
  scene = await GroupScene.start();
});
after(() => scene[Symbol.asyncDispose]());

const withAgents = agentTests(() => scene);

/** `tool NAME ARGUMENTS` and `tools`, as a client of MCP asks. */
const client = `
  mcp() {
    ask POST /mcp "$1" "$(printf 'Content-Type: application/json\\r\\nAccept: application/json, text/event-stream')" |
      sed 's/^data: //;/^event:/d;/^\\r*$/d'
  }
  tools() { mcp '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'; }
  tool() { mcp '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'"$1"'","arguments":'"$2"'}}'; }
`;

interface Result {
  readonly result: {
    readonly tools?: readonly { readonly name: string }[];
    readonly content?: readonly { readonly text: string }[];
    readonly isError?: boolean;
  };
}

withAgents('an agent acts by tools of MCP, each judged by its tier, and is told who decided', async () => {
  await scene.group('victim', 'untrusted', { script: 'cat' });
  await scene.group('tooled', 'untrusted', {
    script: `${client}
      tools; echo
      tool self '{}'; echo
      tool message_send '{"text":"by a tool"}'; echo
      tool message_send '{"text":"from outside","chat":"victim"}'; echo
      tool group_create '{"name":"mine","tier":"main"}'; echo`,
  });
  const lines = (await scene.answer('tooled')).split('\n').filter((line) => line.startsWith('{"'));
  const [listed, self, sent, outside, made] = lines.map((line) => (JSON.parse(line) as Result).result);
  assert.ok(listed?.tools?.some(({ name }) => name === 'schedule_create'));
  const told = (result: Result['result'] | undefined) =>
    JSON.parse(result?.content?.[0]?.text ?? '{}') as Readonly<Record<string, unknown>>;
  assert.equal(told(self)['group'], 'tooled');
  assert.equal(told(sent)['state'], 'done');
  for (const refused of [outside, made]) {
    assert.equal(refused?.isError, true);
    assert.equal(told(refused)['state'], 'denied');
    assert.match(String(told(refused)['rule']), /^untrusted: /);
  }
  assert.match(await scene.heard('tooled'), /by a tool/);
  assert.equal(await scene.heard('victim'), '');
});
