/** What a box is not made for: a wish that can't be met, or one that would open more than anybody meant. */
export class BoxRefusal extends Error {
  /** `usage`: the words are wrong; `box_refused`: the rules forbid it; `start_failed`: there is no daemon to run it under. */
  readonly code: 'usage' | 'box_refused' | 'start_failed';

  constructor(code: BoxRefusal['code'], message: string) {
    super(message);
    this.name = 'BoxRefusal';
    this.code = code;
  }
}
