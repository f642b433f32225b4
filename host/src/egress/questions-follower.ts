/**
 * Hears what waits for a person from whichever egress process there is, and brings answers. Where one ends all its
 * questions have: connections that waited come back to the next one, and are asked for anew.
 */
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import { limits } from '@squash/contract/limits';
import type { QuestionListener, Questions } from '../sandbox/questions.ts';
import type { EgressClient } from './egress-client.ts';

export class QuestionsFollower implements Questions, AsyncDisposable {
  readonly #client: EgressClient;
  readonly #log: Log;
  readonly #stopping = new AbortController();
  #following: Promise<void> | undefined;

  constructor(client: EgressClient, log: Log) {
    this.#client = client;
    this.#log = log;
  }

  begin(listener: QuestionListener): void {
    this.#following ??= this.#follow(listener);
  }

  answer(id: string, isAllowed: boolean): Promise<boolean> {
    return this.#client.answer(id, isAllowed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#following;
  }

  async #follow(listener: QuestionListener): Promise<void> {
    const { signal } = this.#stopping;
    let hadOpen = false;
    while (!signal.aborted) {
      try {
        for await (const event of this.#client.followQuestions(signal)) {
          hadOpen = true;
          if (event.type === 'open') listener.onOpen(event.open);
          else if (event.type === 'asked') listener.onAsked(event.asked);
          else listener.onEnded(event.end);
        }
      } catch (error) {
        if (signal.aborted) return;
        // The supervisor says that the process is away. Here it matters that its questions are.
        if (hadOpen) this.#log.warn('approvals.lost', { error: errorText(error) });
      }
      if (hadOpen) listener.onOpen([]);
      hadOpen = false;
      await pause(limits.questionsRetryMs, signal);
    }
  }
}
