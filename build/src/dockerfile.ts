/**
 * A Dockerfile as instructions with their lines. The library finds instructions and here-documents; words are read by `words.ts`, for
 * the library's lose blanks.
 */
import { Copy, DockerfileParser, type Heredoc, Run } from 'dockerfile-ast';
import { BuildProblem } from './problem.ts';

export interface HereDocument {
  readonly name: string;
  /** Its word was quoted: no variable of it is replaced. */
  readonly isLiteral: boolean;
  readonly text: string;
}

export interface Instruction {
  /** Upper case. */
  readonly keyword: string;
  /** From 1. */
  readonly line: number;
  readonly flags: readonly { readonly name: string; readonly value: string | undefined }[];
  /** Behind the flags, on one line, without here-documents. */
  readonly text: string;
  readonly documents: readonly HereDocument[];
  /** The same with here-documents as they stand: what a shell gets. */
  readonly whole: string;
}

export interface Dockerfile {
  readonly escape: string;
  readonly instructions: readonly Instruction[];
}

/** Of a Dockerfile: longer is none. */
const bytesMax = 1_048_576;
const keywords = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(
    ' ',
  ),
);

/** @throws BuildProblem */
export function parseDockerfile(source: string): Dockerfile {
  if (source.length > bytesMax)
    throw new BuildProblem('dockerfile_invalid', `the Dockerfile is longer than ${bytesMax} characters`);
  const text = source.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
  const lines = text.split('\n');
  const file = DockerfileParser.parse(text);
  const escape = file.getEscapeCharacter();
  const instructions = file.getInstructions().map((each): Instruction => {
    const start = each.getRange().start.line;
    const keyword = each.getKeyword();
    if (!keywords.has(keyword))
      throw new BuildProblem('dockerfile_invalid', `"${keyword}" is no instruction`, { line: start + 1 });
    const logical = logicalLine(lines, start, escape).replace(/^\s*\S+\s*/, '');
    const { flags, rest } = flagsOf(logical, start + 1);
    const heredocs = each instanceof Run || each instanceof Copy ? each.getHeredocs() : [];
    const documents = heredocs.map((found) => documentOf(lines, found, start + 1));
    const bodies = heredocs.map((found) => bodyOf(lines, found));
    return { keyword, line: start + 1, flags, text: rest, documents, whole: [rest, ...bodies].join('\n') };
  });
  return { escape, instructions };
}

/** Lines that go on; comments and empty lines between them are none. */
function logicalLine(lines: readonly string[], start: number, escape: string): string {
  const goesOn = (line: string): boolean => line.trimEnd().endsWith(escape);
  let found = lines[start] ?? '';
  for (let at = start; goesOn(found); ) {
    found = found.trimEnd().slice(0, -escape.length);
    do at += 1;
    while (at < lines.length && /^\s*(#.*)?$/.test(lines[at] ?? ''));
    if (at >= lines.length) break;
    found += lines[at] ?? '';
  }
  return found.trim();
}

function flagsOf(
  text: string,
  line: number,
): { readonly flags: Instruction['flags']; readonly rest: string } {
  const flags: { name: string; value: string | undefined }[] = [];
  let rest = text;
  for (;;) {
    const [whole = '', name = '', value] = /^--([A-Za-z][\w-]*)(?:=(\S*))?(?:\s+|$)/.exec(rest) ?? [];
    if (whole === '') break;
    flags.push({ name, value });
    rest = rest.slice(whole.length);
  }
  if (rest.startsWith('--'))
    throw new BuildProblem('dockerfile_invalid', `"${rest.split(/\s/)[0] ?? ''}" is no option`, { line });
  return { flags, rest };
}

function documentOf(lines: readonly string[], heredoc: Heredoc, line: number): HereDocument {
  const { start, end } = heredoc.getStartRange();
  const word = (lines[start.line] ?? '').slice(start.character, end.character);
  const range = heredoc.getContentRange();
  if (heredoc.getDelimiterRange() === null)
    throw new BuildProblem('dockerfile_invalid', `the here-document ${word} has no end`, { line });
  const own = range === null ? [] : lines.slice(range.start.line, range.end.line + 1);
  const stripped = word.startsWith('<<-') ? own.map((each) => each.replace(/^\t+/, '')) : own;
  return {
    name: heredoc.getName(),
    isLiteral: /["']/.test(word),
    text: stripped.map((each) => `${each}\n`).join(''),
  };
}

/** With the line that ends it. */
function bodyOf(lines: readonly string[], heredoc: Heredoc): string {
  const end = heredoc.getDelimiterRange()?.start.line ?? 0;
  const start = heredoc.getContentRange()?.start.line ?? end;
  return lines.slice(start, end + 1).join('\n');
}

/** The JSON form: a list of words; undefined: the other form. */
export function jsonWords(text: string): readonly string[] | undefined {
  if (!text.startsWith('[')) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) && parsed.every((each) => typeof each === 'string') ? parsed : undefined;
  } catch {
    return undefined;
  }
}
