/** A daemon with groups whose agents are shell scripts: real sandboxes, real runs, and a channel that is asked by `nc`. */
import { test } from 'node:test';
import type { Action } from '@squash/contract/actions';
import type { Group, MessageTaken, OutMessage, Run } from '@squash/contract/groups';
import type { Tier } from '@squash/contract/tiers';
import { type Answer, type DaemonOptions, TestDaemon } from './daemon.ts';
import { isSingleId } from './data-session.ts';
import { waitFor } from './wait.ts';

/**
 * `ask METHOD PATH [BODY]` prints what the channel answers, `act JSON` asks for an action. Standard input stays open until the
 * answer has come: `nc` closes the connection otherwise.
 */
const tools = `ask() {
  rm -f /tmp/ask.in; mkfifo /tmp/ask.in
  nc caller.squash.internal 7774 </tmp/ask.in >/tmp/ask.out 2>/tmp/ask.err & asked=$!
  exec 3>/tmp/ask.in
  printf '%s %s HTTP/1.1\\r\\nHost: channel\\r\\nContent-Length: %s\\r\\n%s\\r\\n\\r\\n%s' "$1" "$2" "\${#3}" "\${4:-X-Plain: 1}" "$3" >&3
  wait $asked; exec 3>&-
  sed '1,/^\\r$/d' /tmp/ask.out
}
act() { ask POST /actions "$1"; }
`;

export interface GroupWish {
  readonly script: string;
  readonly [field: string]: unknown;
}

export class GroupScene implements AsyncDisposable {
  readonly daemon: TestDaemon;

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
  }

  static async start(options: DaemonOptions = {}): Promise<GroupScene> {
    return new GroupScene(await TestDaemon.start(options));
  }

  /** With a chat of the same name, whose every message starts a run of the script. */
  async group(name: string, tier: string, { script, ...more }: GroupWish): Promise<Group> {
    const command = ['/bin/sh', '-c', `${tools}${script}`];
    const group = await this.call<Group>('POST', '/v1/groups', {
      name,
      tier,
      command,
      ...more,
    });
    await this.chat({ name, group: name });
    return group;
  }

  async chat(body: object): Promise<void> {
    await this.call('POST', '/v1/chats', body);
  }

  async say(chat: string, text: string, more: object = {}): Promise<MessageTaken> {
    return await this.call('POST', `/v1/chats/${chat}/messages`, { sender: 'alice', text, ...more });
  }

  async said(chat: string): Promise<readonly OutMessage[]> {
    return (await this.call<{ items: OutMessage[] }>('GET', `/v1/chats/${chat}/messages?limit=1000`)).items;
  }

  /** All that was said in it, as one text. */
  async heard(chat: string): Promise<string> {
    return (await this.said(chat)).map(({ text }) => text).join('');
  }

  async runs(group: string): Promise<readonly Run[]> {
    return (await this.call<{ items: Run[] }>('GET', `/v1/groups/${group}/runs`)).items;
  }

  async run(group: string, run: number | null): Promise<Run | undefined> {
    return (await this.runs(group)).find((each) => each.run === run);
  }

  /** A tier like `untrusted`, with something other. */
  async tier(name: string, change: object): Promise<void> {
    const { items } = await this.call<{ items: Tier[] }>('GET', '/v1/tiers');
    const { name: _name, built_in: _, ...body } = items.find((each) => each.name === 'untrusted') ?? {};
    await this.call('PUT', `/v1/tiers/${name}`, { ...body, ...change });
  }

  /** Resolves when it is over, and its sandbox gone or kept. */
  async ended(group: string, run: number | null): Promise<Run> {
    const over = async (): Promise<Run | undefined> => {
      const found = await this.run(group, run);
      return found !== undefined && isLeft(found) ? found : undefined;
    };
    return await waitFor(`the end of run ${run}`, over, 60_000);
  }

  /** Says something, and resolves with what the run's command printed. */
  async answer(group: string, text = 'go'): Promise<string> {
    const { run } = await this.say(group, text);
    await this.ended(group, run);
    const printed = (await this.said(group)).filter((each) => each.run === run && each.action === null);
    return printed.map((each) => each.text).join('');
  }

  async actions(query = ''): Promise<readonly Action[]> {
    return (await this.call<{ items: Action[] }>('GET', `/v1/group-actions${query}`)).items;
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    return (await this.daemon.call(method, path, body)) as T;
  }

  async refused(method: string, path: string, body?: unknown): Promise<string> {
    const { status, json, text }: Answer = await this.daemon.request(method, path, body);
    if (status < 400) throw new Error(`${method} ${path} was answered ${status}: ${text}`);
    return (json as { readonly code: string }).code;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.daemon[Symbol.asyncDispose]();
  }
}

/** It is over, and nothing of it has to be done any more. */
export function isLeft({ finished_at, sandbox, warm_until }: Run): boolean {
  return finished_at !== null && (sandbox === null || warm_until !== null);
}

/** Tests whose agents run, which they do as uid 1000. */
export function agentTests(scene: () => GroupScene): (title: string, body: () => Promise<void>) => void {
  return (title, body) =>
    void test(title, async (t) => {
      if (await isSingleId(scene().daemon)) return t.skip('single-id mode: there is no uid 1000');
      await body();
    });
}
