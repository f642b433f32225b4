/** Where a client of an event stream wants to go on. */
import { AppError } from '@squash/contract/errors';

/** Browsers send back the id they saw; anything that is no number was never ours. @throws invalid_request */
export function resumePoint(lastEventId: string | undefined): number | undefined {
  if (lastEventId === undefined || lastEventId === '') return undefined;
  if (/^\d{1,15}$/.test(lastEventId)) return Number(lastEventId);
  throw new AppError('invalid_request', 'Last-Event-ID must be the id of an event of this stream');
}
