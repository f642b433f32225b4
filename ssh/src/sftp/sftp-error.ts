/** A refusal of this part's own. */
import type { StatusCode } from './packets.ts';

export class SftpError extends Error {
  readonly status: StatusCode;

  constructor(status: StatusCode, message: string) {
    super(message);
    this.name = 'SftpError';
    this.status = status;
  }
}
