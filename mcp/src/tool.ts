/** What a tool is: a row that says what it takes and does to whom, and a function. `server.ts` makes MCP of it. */
import type { Sandbox } from '@squash/sdk';
import { z } from 'zod';
import type { Session } from './session.ts';

export interface ToolCall {
  readonly session: Session;
  /** The client has cancelled the call, or is gone. */
  readonly signal: AbortSignal;
  /** Told to the client where it asked for that. */
  readonly progress: (message: string) => void;
  /** The answer's length. */
  readonly chars: number;
}

export type Block =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly data: string; readonly mimeType: string };

export interface ToolAnswer {
  readonly blocks: readonly Block[];
  /** Where the tool has an `output` schema. */
  readonly structured?: Readonly<Record<string, unknown>>;
  /** For programs: models are not shown it. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** What a client may take a tool for before it asks its user. */
export type Kind = 'reads' | 'adds' | 'replaces' | 'destroys' | 'runs' | 'asks';

export interface ToolRow<Input extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly kind: Kind;
  readonly input: Input;
  readonly output?: z.ZodObject;
  readonly run: (input: z.output<Input>, call: ToolCall) => Promise<ToolAnswer>;
}

/** One list for tools of all inputs: the server calls `run` with what its own `input` has parsed, and with nothing else. */
export function defineTool<Input extends z.ZodObject>(row: ToolRow<Input>): ToolRow {
  return { ...row, run: (input, call) => row.run(input as z.output<Input>, call) };
}

export const sandboxShape = {
  sandbox: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('id of a sandbox; without it this session’s own, which is made when it is first needed'),
};

/** Where tools work that are told no place. */
export const home = '/root';

export const pathSchema = z.string().min(1).max(4_095).describe('absolute path in the sandbox');

export function textAnswer(text: string, more: Omit<ToolAnswer, 'blocks'> = {}): ToolAnswer {
  return { blocks: [{ type: 'text', text }], ...more };
}

/** JSON for the model and for programs: the same. */
export function structuredAnswer(structured: Readonly<Record<string, unknown>>): ToolAnswer {
  return { ...textAnswer(JSON.stringify(structured)), structured };
}

export async function boxOf(
  { sandbox }: { readonly sandbox?: string | undefined },
  { session }: ToolCall,
): Promise<Sandbox> {
  return await session.box(sandbox);
}
