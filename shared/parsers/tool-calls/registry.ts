import {
  TOOL_CALL_PARSER_SPELLINGS,
  TOOL_CALL_PARSERS_WITHOUT_GRAMMAR,
  type ToolCallParserName,
} from '../../config/index.ts';
import type { FinishReason } from '../../protocol/index.ts';
import { eitherFinder, Markers } from '../markers.ts';
import type { ToolCallOptions, ToolCallParser, ToolCallSink } from './call-writer.ts';
import { finishReasonAfterCalls, MarkupParser, type ToolCallFormat } from './format.ts';
import * as BY_NAME from './formats/by-name.ts';
import { defaultJson } from './formats/default-json.ts';
import { readForcedJson } from './formats/json-family.ts';

// Formats by configured name. A name that the configuration accepts and that has no export here does not compile.
const FORMAT_OF_NAME: Readonly<Record<ToolCallParserName, ToolCallFormat>> = { ...BY_NAME, default: defaultJson };

/** Formats by the names that workers publish, other spellings included. Matched exactly. */
const FORMATS: ReadonlyMap<string, ToolCallFormat> = new Map([
  ...Object.entries(FORMAT_OF_NAME),
  ...Object.entries(TOOL_CALL_PARSER_SPELLINGS).map(([spelling, name]) => [spelling, FORMAT_OF_NAME[name]] as const),
]);

/**
 * Families that have a second generation of parsers in Dynamo. Here one parser serves both: it streams calls as the
 * second does.
 */
const OF_SECOND_GENERATION: ReadonlySet<string> = new Set([
  'qwen3_coder',
  'glm45',
  'glm47',
  'kimi_k2',
  'kimi_k25',
  'deepseek_v4',
  'deepseek_v41',
]);

/** Returns whether a parser name exists in the requested generation (`DYN_PARSER_VERSION`). */
export function hasParserOfVersion(name: string, version: 'auto' | '1' | '2'): boolean {
  return version !== '2' || name === '' || OF_SECOND_GENERATION.has(TOOL_CALL_PARSER_SPELLINGS[name] ?? name);
}

/** Description of a parser name. */
export type ToolCallParserDescription =
  | {
      readonly kind: 'built';
      /**
       * Whether the markers are special tokens: then the request needs `skip_special_tokens: false` unless the client
       * set it.
       */
      readonly keepsSpecialTokens: boolean;
      /** Marker texts whose tokens must be shown if they end generation. */
      readonly endTokens: readonly string[];
      /** Markers of calls that are tokens of their own in the family's models, and end reasoning there. */
      readonly callTokens: readonly string[];
    }
  | { readonly kind: 'refused'; readonly message: string };

/** Names that can be configured. */
export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...FORMATS.keys()].sort();

/** Looks a name up when a worker registers; `message` says why a name cannot serve. */
export function describeToolCallParser(name: string): ToolCallParserDescription {
  const format = FORMATS.get(name);
  if (format !== undefined) {
    return {
      kind: 'built',
      keepsSpecialTokens: format.keepsSpecialTokens ?? false,
      endTokens: format.endTokens ?? [],
      callTokens: format.callTokens ?? [],
    };
  }
  const available = `Available parsers: [${TOOL_CALL_PARSER_NAMES.join(', ')}]`;
  const message = TOOL_CALL_PARSERS_WITHOUT_GRAMMAR.includes(name)
    ? `Parser '${name}' is known by name only: the format of its tool calls is not published. ${available}`
    : `Parser '${name}' is not implemented. ${available}`;
  return { kind: 'refused', message };
}

/**
 * Creates the parser for one choice. Returns undefined when its text is all content: no tools, `tool_choice: "none"`,
 * or no configured parser while the choice is not forced.
 *
 * @param name as in the model's card; empty counts as absent. A name that `describeToolCallParser` refuses throws.
 * @example
 * const parser = createToolCallParser('hermes', { tools, toolChoice: 'auto', random: systemRandom });
 * parser?.push('<tool_call>{"name":"f","arguments":{}}</tool_call>', sink);
 */
export function createToolCallParser(name: string | undefined, options: ToolCallOptions): ToolCallParser | undefined {
  const choice = options.toolChoice ?? 'auto';
  const isConfigured = name !== undefined && name !== '';
  if (options.tools.length === 0 || choice === 'none') return undefined;
  if (choice === 'auto') return isConfigured ? new MarkupParser(formatOf(name), options) : undefined;
  return new ForcedChoiceParser(isConfigured ? formatOf(name) : defaultJson, options);
}

function formatOf(name: string): ToolCallFormat {
  const format = FORMATS.get(name);
  if (format !== undefined) return format;
  const description = describeToolCallParser(name);
  throw new RangeError(description.kind === 'refused' ? description.message : name);
}

const THINK_END = '</think>';

/**
 * Reads the answer to a required or named tool choice: guided JSON from its first character on or, from an engine that
 * ignored the constraint, the model's own format. Prose is shown only when the answer has no call.
 */
class ForcedChoiceParser implements ToolCallParser {
  readonly #inner: MarkupParser;
  readonly #capture: ToolCallSink;
  #out: ToolCallSink | undefined;
  #prose = '';

  constructor(native: ToolCallFormat, options: ToolCallOptions) {
    this.#inner = new MarkupParser(forcedFormat(native, options), options);
    this.#capture = {
      content: (text) => {
        this.#prose += text;
      },
      callStart: (index, id, callName) => this.#out?.callStart(index, id, callName),
      callArguments: (index, fragment) => this.#out?.callArguments(index, fragment),
    };
  }

  get callCount(): number {
    return this.#inner.callCount;
  }

  push(text: string, out: ToolCallSink): void {
    this.#out = out;
    this.#inner.push(text, this.#capture);
  }

  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null {
    this.#out = out;
    this.#inner.end(reason, this.#capture);
    if (this.callCount === 0 && this.#prose !== '') out.content(this.#prose);
    this.#prose = '';
    return finishReasonAfterCalls(reason, this.callCount);
  }
}

/**
 * Returns the format with guided JSON at the beginning. Guided JSON is tried again after reasoning that is still in the
 * text.
 */
function forcedFormat(native: ToolCallFormat, { toolChoice }: ToolCallOptions): ToolCallFormat {
  const name = typeof toolChoice === 'object' ? toolChoice.name : undefined;
  return {
    newId: native.newId,
    finder: (tools) => eitherFinder(native.finder(tools), new Markers([THINK_END])),
    readOpening: (source, calls) => readForcedJson(source, calls, name),
    *read(marker, source, calls, tools) {
      if (marker !== THINK_END) return yield* native.read(marker, source, calls, tools);
      calls.content(marker);
      return yield* readForcedJson(source, calls, name);
    },
  };
}
