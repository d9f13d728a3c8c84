import { isDeepStrictEqual } from 'node:util';
import { seededRandom } from '../../../shared/clock/index.ts';
import { createReasoningParser, createToolCallParser, planReasoning } from '../../../shared/parsers/index.ts';
import { REASONING_FORMATS } from '../../../shared/parsers/reasoning/formats.ts';
import { TOOL_CALL_PARSER_NAMES } from '../../../shared/parsers/tool-calls/registry.ts';
import { BARRED, FRAGMENTS, JSON_BITS, PROSE } from '../model-texts.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'f',
      parameters: { type: 'object', properties: { a: { type: 'string' }, n: { type: 'integer' }, o: {} } },
    },
  },
] as const;
const REASONING_MARKERS = REASONING_FORMATS.flatMap(({ markers, promptOpeners }) => [...markers, ...promptOpeners]);
const PARTS_MAX = 40;
const PIECE_UNITS_MAX = 12;
/** Length of some texts, long enough to show a cost that grows faster than the length. */
const LONG_UNITS = 30_000;

interface ModelText {
  readonly text: string;
  /** Words that occur once each, outside of markup. */
  readonly words: readonly string[];
}

/** Composes a text that no model would write from pieces that models write. */
function modelText(values: HostileValues, markers: readonly (readonly string[])[]): ModelText {
  const words: string[] = [];
  const parts = Array.from({ length: values.random.below(PARTS_MAX) }, () => {
    if (values.chance(0.3)) return ` ${words[words.push(`w${words.length}z`) - 1]} `;
    return values.chance(0.05) ? values.text().slice(0, 200) : values.one(values.one(markers));
  });
  const text = parts.join('');
  if (text === '' || !values.chance(0.02)) return { text, words };
  return { text: text.repeat(Math.ceil(LONG_UNITS / text.length)), words: [] };
}

function cutAnywhere(values: HostileValues, text: string): readonly string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = at + 1 + values.random.below(PIECE_UNITS_MAX);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

function requireSame(found: unknown, wanted: unknown): void {
  if (isDeepStrictEqual(found, wanted)) return;
  throw new Error(`a cut changes the result: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
}

function requireWords(shown: string, words: readonly string[], text: string): void {
  const lost = words.filter((word) => !shown.includes(word));
  if (lost.length > 0) throw new Error(`${lost.join(', ')} of ${JSON.stringify(text)} is lost`);
}

const readToolCalls: Part = (values) => {
  const name = values.one(TOOL_CALL_PARSER_NAMES);
  const toolChoice = values.one(['auto', 'auto', 'required'] as const);
  const { text, words } = modelText(values, [FRAGMENTS, BARRED, JSON_BITS, PROSE]);
  const read = (pieces: readonly string[]) => {
    const parser = createToolCallParser(name, { tools: TOOLS, toolChoice, random: seededRandom(1) });
    const out = { content: '', calls: [] as { id: string; name: string; text: string }[], reason: '' as string | null };
    const sink = {
      content: (piece: string) => {
        out.content += piece;
      },
      callStart: (index: number, id: string, callName: string) => {
        if (index !== out.calls.length) throw new Error(`call ${index} began after ${out.calls.length} calls`);
        out.calls.push({ id, name: callName, text: '' });
      },
      callArguments: (index: number, piece: string) => {
        if (index !== out.calls.length - 1) throw new Error(`arguments of call ${index} of ${out.calls.length}`);
        out.calls[index]!.text += piece;
      },
    };
    for (const piece of pieces) parser?.push(piece, sink);
    out.reason = parser?.end('stop', sink) ?? null;
    if (parser?.callCount !== out.calls.length) throw new Error('the calls are not counted');
    return out;
  };
  const whole = read([text]);
  requireSame(read(cutAnywhere(values, text)), whole);
  if (toolChoice === 'required') return; // the server drops prose beside a required call
  requireWords(whole.content + whole.calls.map((call) => call.id + call.name + call.text).join(''), words, text);
};

const readReasoning: Part = (values) => {
  const format = values.one(REASONING_FORMATS);
  const promptText = values.chance(0.3) ? (format.promptOpeners[0] ?? '') : values.text();
  const { text, words } = modelText(values, [REASONING_MARKERS, REASONING_MARKERS, BARRED, PROSE]);
  const read = (pieces: readonly string[]) => {
    const out = { content: '', reasoning: '' };
    const plan = planReasoning(format, { promptText, templateArgs: { thinking: true } });
    if (plan === undefined) return out;
    const parser = createReasoningParser(plan);
    const sink = {
      content: (piece: string) => {
        out.content += piece;
      },
      reasoning: (piece: string) => {
        out.reasoning += piece;
      },
    };
    for (const piece of pieces) parser.push(piece, sink);
    parser.end(sink);
    return out;
  };
  const whole = read([text]);
  requireSame(read(cutAnywhere(values, text)), whole);
  const isBlocks = ['harmony', 'inkling', 'muse'].includes(format.grammar.kind);
  if (isBlocks || whole.content + whole.reasoning === '') return; // there, words in headers are names
  requireWords(whole.content + whole.reasoning, words, text);
};

/** Readers of the text of models. No text makes one throw, no text is lost, and no cut changes the result. */
export const PARSER_PARTS: Readonly<Record<string, Part>> = {
  'tool calls': readToolCalls,
  reasoning: readReasoning,
};
