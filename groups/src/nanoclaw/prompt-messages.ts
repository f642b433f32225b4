/** The messages of a run, as its command reads them on standard input. Pure. */

export interface PromptMessage {
  readonly sender: string;
  readonly time: string;
  readonly text: string;
}

/** Nothing in a message's text can be taken for an element: that is what Squash escapes it for. */
export function messagesIn(prompt: string): readonly PromptMessage[] {
  const found = prompt.matchAll(/<message sender="([^"]*)" time="([^"]*)">([^<]*)<\/message>/g);
  return [...found].map(([, sender = '', time = '', text = '']) => ({
    sender: plain(sender),
    time,
    text: plain(text),
  }));
}

/** Whether nobody but schedules has written. */
export function isOfSchedules(messages: readonly PromptMessage[]): boolean {
  return messages.length > 0 && messages.every(({ sender }) => sender.startsWith('schedule:'));
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function plain(text: string): string {
  return text.replaceAll(/&(amp|lt|gt|quot|apos);/g, (whole, name: string) => entities[name] ?? whole);
}
