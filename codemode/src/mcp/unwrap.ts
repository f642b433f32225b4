/** What an MCP tool answers, as the value a program wants: data where there is data, text where there is text, an exception where it failed. */
import type { CallToolResult } from '@modelcontextprotocol/client';

/** @throws Error where the tool says that it failed */
export function unwrap(result: CallToolResult): unknown {
  const { content, structuredContent, isError } = result;
  const texts = content.flatMap((block) => (block.type === 'text' ? [block.text] : []));
  if (isError === true) throw new Error(texts.join('\n') || 'the tool failed');
  if (structuredContent !== undefined) return structuredContent;
  if (content.length > 0 && texts.length === content.length) return parsed(texts.join('\n'));
  return content.length === 0 ? undefined : content;
}

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
