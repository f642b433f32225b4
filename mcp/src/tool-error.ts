/** What a tool itself refuses, or can't do: a code for programs, a sentence, and what the model can do about it. */
export class ToolError extends Error {
  readonly code: string;
  readonly remedy: string;

  constructor(code: string, message: string, remedy = '') {
    super(message);
    this.name = 'ToolError';
    this.code = code;
    this.remedy = remedy;
  }
}
