/** What agents say in a chat, for whoever follows it: it is read from what is stored, and a follower is only told that there may be more. */
import { EventEmitter, once } from 'node:events';
import type { OutMessage } from '@squash/contract/groups';
import type { GroupRows } from './rows.ts';
import { outOf } from './views.ts';

/** Read at once, for each follower: of the longest messages 256 KiB. */
const pageRows = 16;

export class Said {
  readonly #rows: GroupRows;
  readonly #told = new EventEmitter().setMaxListeners(0);

  constructor(rows: GroupRows) {
    this.#rows = rows;
  }

  /** Something may have been said, in whatever chat, and is stored. */
  tell(): void {
    this.#told.emit('told');
  }

  /**
   * What is behind `after`, and then each as it is said. It ends with the chat, or where the signal aborts.
   * No more than a page is kept for a follower: one that is slow reads what is stored by then.
   */
  async *follow(chat: string, after: number, signal: AbortSignal): AsyncGenerator<OutMessage, void> {
    let last = after;
    while (!signal.aborted && this.#rows.chat(chat) !== undefined) {
      const rows = this.#rows.out(chat, last, pageRows);
      for (const row of rows) {
        yield outOf(row);
        last = row.number;
      }
      if (rows.length > 0) continue;
      // Nothing is told between the look and this wait: both are in one turn of the event loop.
      await once(this.#told, 'told', { signal }).catch(() => undefined);
    }
  }
}
