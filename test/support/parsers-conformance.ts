import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { seededRandom } from '../../shared/clock/index.ts';
import {
  createReasoningParser,
  createToolCallParser,
  findReasoningFormat,
  planReasoning,
  type ReasoningParser,
  type ToolCallSink,
} from '../../shared/parsers/index.ts';
import type { FinishReason, ToolChoice, ToolDefinition } from '../../shared/protocol/index.ts';
import { applyParserDifferences } from './parsers-differences.ts';

/** A call as a row expects it: by value, by its bytes, or up to the end of the text. */
export interface ExpectedCall {
  readonly name: string;
  readonly arguments?: unknown;
  readonly raw?: string;
  readonly arguments_raw?: string;
  readonly callId?: string;
}

export interface ParserExpectation {
  readonly content?: string | null;
  readonly reasoning?: string | null;
  readonly calls: readonly ExpectedCall[];
  readonly finish_reason?: FinishReason;
}

/** A line of test/fixtures/parsers, whose README describes it. `expect` may also be fields of the row itself. */
export interface ParserRow {
  readonly id: string;
  readonly kind: string;
  readonly parser?: string;
  readonly reasoning_parser?: string;
  readonly text: string;
  readonly chunks?: readonly string[];
  readonly tools?: Readonly<Record<string, unknown>>;
  readonly tool_choice?: string;
  readonly engine_finish?: FinishReason;
  readonly prefill?: boolean;
  readonly reasoning_effort?: string;
  readonly chat_template_args?: Readonly<Record<string, unknown>>;
  readonly expect: ParserExpectation;
}

export interface ParserResult {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly finish_reason: FinishReason | null;
}

/** Reads the rows of a file of either shape. */
export function readParserRows(file: string): readonly ParserRow[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line.trim() !== '').map((line) => normalizeRow(JSON.parse(line) as ParserRow));
}

/** Reads the rows of every `.jsonl` file in a folder. */
export function readParserFolder(folder: string): readonly ParserRow[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  return files.sort().flatMap((name) => readParserRows(join(folder, name)));
}

/** Parses the text of a row in the given pieces through both stages, as the pipeline does for one choice. */
export function readPieces(row: ParserRow, pieces: readonly string[]): ParserResult {
  let content = '';
  let reasoning = '';
  const calls: { id: string; name: string; arguments: string }[] = [];
  const sink: ToolCallSink = {
    content: (text) => {
      content += text;
    },
    callStart: (index, id, name) => {
      if (index !== calls.length) throw new Error(`call ${index} after ${calls.length}`);
      calls.push({ id, name, arguments: '' });
    },
    callArguments: (index, fragment) => {
      if (index !== calls.length - 1) throw new Error(`arguments of call ${index} of ${calls.length}`);
      calls[index]!.arguments += fragment;
    },
  };
  const tools = toolParserOf(row);
  const thoughts = reasoningParserOf(row);
  const toTools = (text: string): void => (tools === undefined ? sink.content(text) : tools.push(text, sink));
  const split = {
    content: toTools,
    reasoning: (text: string): void => {
      reasoning += text;
    },
  };
  for (const piece of pieces) {
    if (thoughts === undefined) toTools(piece);
    else thoughts.push(piece, split);
  }
  thoughts?.end(split);
  const given = row.engine_finish ?? 'stop';
  const reason = tools === undefined ? given : tools.end(given, sink); // may release text
  return { content, reasoning, calls, finish_reason: reason };
}

/** Returns the faults in how the row is parsed: whole, in pieces of 1, 3 and 7 characters, and in its own pieces. */
export function playParserRow(row: ParserRow): {
  readonly failures: readonly string[];
  readonly applied: readonly string[];
} {
  const characters = [...row.text];
  const cuts = new Map([1, 3, 7].map((size) => [`pieces of ${size}`, cutEvery(characters, size)]));
  cuts.set('whole', [row.text]);
  if (row.chunks !== undefined) cuts.set('its own pieces', row.chunks);
  const applied = new Set<string>();
  const failures = [...cuts].flatMap(([cut, pieces]) => {
    const actual = readPieces(row, pieces);
    const outcome = applyParserDifferences(row, row.expect, actual);
    for (const each of outcome.applied) applied.add(each);
    return compareResult(outcome.expected, actual).map((failure) => `${cut}: ${failure}`);
  });
  return { failures, applied: [...applied] };
}

/** Returns every difference between a result and the expectation. */
export function compareResult(expected: ParserExpectation, actual: ParserResult): readonly string[] {
  const failures: string[] = [];
  const check = (what: string, isEqual: boolean, wanted: unknown, seen: unknown): void => {
    if (!isEqual) failures.push(`${what}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(seen)}`);
  };
  const { content, reasoning, finish_reason: reason } = expected;
  if (content !== undefined) check('content', (content ?? '') === actual.content, content, actual.content);
  if (reasoning !== undefined) check('reasoning', (reasoning ?? '') === actual.reasoning, reasoning, actual.reasoning);
  if (reason !== undefined) check('finish_reason', reason === actual.finish_reason, reason, actual.finish_reason);
  const isEveryCall =
    expected.calls.length === actual.calls.length &&
    expected.calls.every((call, index) => isSameCall(call, actual.calls[index]!));
  check('calls', isEveryCall, expected.calls, actual.calls);
  return failures;
}

function isSameCall(expected: ExpectedCall, actual: ParserResult['calls'][number]): boolean {
  const bytes = expected.arguments_raw ?? expected.raw;
  if (expected.name !== actual.name || (expected.callId ?? actual.id) !== actual.id) return false;
  if (bytes !== undefined) return bytes === actual.arguments;
  try {
    return isDeepStrictEqual(JSON.parse(actual.arguments), expected.arguments);
  } catch {
    return false; // arguments that are not JSON equal no value
  }
}

/** Cuts the text into pieces of `size` characters, and never within a character. */
export function cutEvery(characters: readonly string[], size: number): readonly string[] {
  const count = Math.ceil(characters.length / size);
  return Array.from({ length: count }, (_, at) => characters.slice(at * size, (at + 1) * size).join(''));
}

function normalizeRow(row: ParserRow & Partial<ParserExpectation>): ParserRow {
  const { content, reasoning, finish_reason } = row;
  const inRow = { ...(content !== undefined && { content }), ...(reasoning !== undefined && { reasoning }) };
  const expect = row.expect ?? { ...inRow, ...(finish_reason !== undefined && { finish_reason }), calls: row.calls };
  return { ...row, text: row.text ?? row.chunks?.join('') ?? '', expect: { ...expect, calls: expect.calls ?? [] } };
}

function toolParserOf(row: ParserRow): ReturnType<typeof createToolCallParser> {
  if (row.kind.startsWith('reason')) return undefined;
  const choice = row.tool_choice ?? 'auto';
  const isWord = choice === 'auto' || choice === 'required' || choice === 'none';
  const toolChoice: ToolChoice = isWord ? choice : { name: choice };
  return createToolCallParser(row.parser, { tools: toolsOf(row), toolChoice, random: seededRandom(1) });
}

function toolsOf(row: ParserRow): readonly ToolDefinition[] {
  const tools = Object.entries(row.tools ?? { dummy: {} });
  return tools.map(([name, properties]) => ({
    type: 'function',
    function: { name, parameters: { type: 'object', properties } },
  }));
}

function reasoningParserOf(row: ParserRow): ReasoningParser | undefined {
  const name = row.kind.startsWith('reason') ? row.parser : row.reasoning_parser;
  if (name === undefined) return undefined;
  const found = findReasoningFormat(name);
  const effort = row.reasoning_effort === undefined ? {} : { reasoning_effort: row.reasoning_effort };
  const plan = planReasoning(found.format, {
    templateArgs: { ...row.chat_template_args, ...effort },
    forcesTool: row.tool_choice !== undefined && row.tool_choice !== 'auto' && row.tool_choice !== 'none',
    promptText: row.prefill === true ? `hi\n${found.format.promptOpeners[0]}` : 'hi',
  });
  return plan && createReasoningParser(plan);
}
