import { type Finder, Markers } from '../../markers.ts';
import { countedId } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { writeJsonObject } from '../json-scan.ts';
import { endOfPythonString, parsePythonLiteral, skipSpaces } from '../python-literal.ts';
import type { Parsing, TextSource } from '../scan.ts';

// Repetitions are bounded, because text that may become a list is held back and scanned again with every piece of text.
const LIST = /\[\s{0,64}[\p{L}_][\p{L}\p{N}\p{M}_.-]{0,255}\s{0,64}\(/uy;
const LIST_BEGUN = /\[\s{0,64}(?:[\p{L}_][\p{L}\p{N}\p{M}_.-]{0,255}\s{0,64})?$/uy;
const CALLEE = /\s*([\p{L}_][\p{L}\p{N}\p{M}_.-]*)\s*\(/uy;
const KEYWORD = /\s*([\p{L}_][\p{L}\p{N}\p{M}_]*)\s*=(?!=)/uy;

/** Characters that may follow the bracket of a call: a positional argument means prose. */
const ARGUMENT_START = /[\s)*_\p{L}\p{Cs}]/u;

/** Finds `[name(` anywhere, and the tokens around lists. */
class ListFinder implements Finder {
  readonly #tokens: Markers;

  constructor(tokens: readonly string[]) {
    this.#tokens = new Markers(tokens);
  }

  find(text: string, from: number, isComplete: boolean): number {
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code !== 91 && code !== 60) continue; // [ <
      if (this.match(text, at, isComplete) !== undefined) return at;
      if (isComplete) continue;
      if (code === 91 ? matchesAt(LIST_BEGUN, text, at) : this.#tokens.isAt(text, at, isComplete)) return at;
    }
    return text.length;
  }

  match(text: string, at: number, isComplete?: boolean): string | undefined {
    LIST.lastIndex = at;
    return this.#tokens.match(text, at, isComplete) ?? LIST.exec(text)?.[0];
  }
}

/**
 * Creates the format `[name(key=value), ...]`; a list is shown when it is complete. A list that is not one of calls is
 * text, and so is a call in it with an argument that is not a constant: the parser cannot evaluate it.
 * @param tokens those that may stand around the list; they are markup
 */
export function listOfCalls(tokens: readonly string[], rest: Partial<ToolCallFormat> = {}): ToolCallFormat {
  const finder = new ListFinder(tokens);
  return {
    newId: countedId,
    finder: () => finder,
    *read(marker, source, calls) {
      if (tokens.includes(marker)) return 'markup';
      source.record(marker);
      const isWhole = yield* readBalanced(source);
      return showCalls(source.takeRecord(), isWhole, calls);
    },
    ...rest,
  };
}

export const pythonic: ToolCallFormat = listOfCalls(['<|python_start|>', '<|python_end|>']);

/** Shows the calls of a list. @param record text that is shown if the list cannot be read */
export function showCalls(list: string, isWhole: boolean, calls: CallWriter, record = list): Region {
  const parsed = isWhole ? parseCalls(list) : undefined;
  if (parsed === undefined) {
    calls.content(record);
    return 'text';
  }
  for (const call of parsed) {
    if (call.arguments === undefined) calls.content(call.text);
    else calls.whole(call.name, call.arguments);
  }
  return 'markup';
}

interface PythonCall {
  readonly name: string;
  /** Undefined if one of the arguments is not a constant. */
  readonly arguments: string | undefined;
  readonly text: string;
}

/** Reads up to the bracket that closes the list. Returns false when the text ends or cannot be a list of calls. */
function* readBalanced(source: TextSource): Parsing<boolean> {
  const brackets = ['[', '('];
  let isFirst = true;
  let quote = '';
  let isEscaped = false;
  for (;;) {
    for (; source.at < source.text.length; source.at++) {
      const character = source.text[source.at] as string; // inside the text
      if (quote !== '') {
        if (isEscaped) isEscaped = false;
        else if (character === '\\') isEscaped = true;
        else if (character === quote) quote = '';
        continue;
      }
      if (isFirst && !ARGUMENT_START.test(character)) return false; // a positional argument: prose
      isFirst &&= /\s/.test(character);
      if (character === "'" || character === '"') quote = character;
      else if ('[({'.includes(character)) brackets.push(character);
      else if ('])}'.includes(character)) {
        if (brackets.pop() !== '[({'['])}'.indexOf(character)]) return false;
        if (brackets.length === 0) {
          source.at++;
          return true;
        }
      }
    }
    if (source.isEnded) return false;
    yield;
  }
}

/** Parses a list of calls; undefined unless at least one of them can be made. */
function parseCalls(text: string): readonly PythonCall[] | undefined {
  const parsed: PythonCall[] = [];
  let at = 1;
  for (;;) {
    CALLEE.lastIndex = at;
    const callee = CALLEE.exec(text);
    if (callee === null) return undefined;
    const call = parseArguments(text, CALLEE.lastIndex);
    if (call === undefined) return undefined;
    const own = text.slice(at, call.end).trim();
    parsed.push({ name: callee[1] as string, arguments: call.json, text: own });
    at = skipSpaces(text, call.end);
    if (text[at] === ',') at = skipSpaces(text, at + 1);
    if (text[at] === ']' && at === text.length - 1) {
      return parsed.some((each) => each.arguments !== undefined) ? parsed : undefined;
    }
  }
}

/** Parses arguments. Leaves `json` undefined if a value is not a constant, or is `**name`. */
function parseArguments(
  text: string,
  from: number,
): { readonly json: string | undefined; readonly end: number } | undefined {
  const members = new Map<string, string>();
  let isConstant = true;
  let at = skipSpaces(text, from);
  while (text[at] !== ')') {
    if (text.startsWith('**', at)) {
      isConstant = false;
      at = endOfExpression(text, at);
    } else {
      KEYWORD.lastIndex = at;
      const keyword = KEYWORD.exec(text);
      if (keyword === null) return undefined;
      const value = parsePythonLiteral(text, KEYWORD.lastIndex);
      at = value === undefined ? KEYWORD.lastIndex : skipSpaces(text, value.end);
      if (value !== undefined && /[,)]/.test(text[at] ?? '')) members.set(keyword[1] as string, value.json);
      else {
        isConstant = false;
        at = endOfExpression(text, at);
      }
    }
    if (at < 0) return undefined;
    if (text[at] === ',') at = skipSpaces(text, at + 1);
    else if (text[at] !== ')') return undefined;
  }
  return { json: isConstant ? writeJsonObject(members) : undefined, end: at + 1 };
}

/** Skips an expression. Returns the position of the comma or bracket after it, or -1 when it has no end. */
function endOfExpression(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const character = text[at] as string; // inside the text
    if (character === "'" || character === '"') {
      const end = endOfPythonString(text, at);
      if (end < 0) return -1;
      at = end - 1;
    } else if ('[({'.includes(character)) depth++;
    else if (depth === 0 && (character === ',' || character === ')')) return at;
    else if ('])}'.includes(character)) depth--;
  }
  return -1;
}

function matchesAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}
