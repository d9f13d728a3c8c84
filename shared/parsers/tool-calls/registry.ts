import {
  TOOL_CALL_PARSER_SPELLINGS,
  TOOL_CALL_PARSERS_WITHOUT_GRAMMAR,
  type ToolCallParserName,
} from '../../config/index.ts';
import { ForcedChoiceParser } from './forced-choice-parser.ts';
import type { ToolCallFormat } from './format.ts';
import { deepseekV3, deepseekV31 } from './formats/deepseek.ts';
import { deepseekV4, deepseekV32 } from './formats/dsml.ts';
import { gemma4 } from './formats/gemma4.ts';
import { glm47, poolsideV1 } from './formats/glm.ts';
import { harmony } from './formats/harmony.ts';
import { inkling } from './formats/inkling.ts';
import { defaultJson, hermes, jamba, llama3Json, mistral, nemotronDeci, phi4, qwen25 } from './formats/json-family.ts';
import { kimiK2 } from './formats/kimi-k2.ts';
import { kimiK3 } from './formats/kimi-k3.ts';
import { minimaxM2 } from './formats/minimax-m2.ts';
import { minimaxM3 } from './formats/minimax-m3.ts';
import { pythonic } from './formats/pythonic.ts';
import { qwen3Coder } from './formats/qwen3-coder.ts';
import { MarkupParser } from './markup-parser.ts';
import type { ToolCallOptions, ToolCallParser } from './types.ts';

/** The format of every name that the configuration takes: a name without one does not compile. */
const BY_NAME: Readonly<Record<ToolCallParserName, ToolCallFormat>> = {
  hermes,
  qwen25,
  nemotron_deci: nemotronDeci,
  llama3_json: llama3Json,
  mistral,
  phi4,
  jamba,
  default: defaultJson,
  deepseek_v3: deepseekV3,
  deepseek_v3_1: deepseekV31,
  deepseek_v3_2: deepseekV32,
  deepseek_v4: deepseekV4,
  qwen3_coder: qwen3Coder,
  nemotron_nano: qwen3Coder,
  qwen3: qwen3Coder,
  minimax_m2: minimaxM2,
  minimax_m3: minimaxM3,
  minimax_m3_nom: minimaxM3,
  glm47,
  glm45: glm47,
  poolside_v1: poolsideV1,
  kimi_k2: kimiK2,
  kimi_k25: kimiK2,
  kimi_k3: kimiK3,
  gemma4,
  harmony,
  pythonic,
  inkling,
};

/** Names as workers publish them, other spellings included. Matched exactly. */
const FORMATS: ReadonlyMap<string, ToolCallFormat> = new Map([
  ...Object.entries(BY_NAME),
  ...Object.entries(TOOL_CALL_PARSER_SPELLINGS).map(([spelling, name]) => [spelling, BY_NAME[name]] as const),
]);

/**
 * Families that have a second generation of parsers in Dynamo. Here one parser serves both: it streams
 * calls as the second does.
 */
const OF_SECOND_GENERATION: ReadonlySet<string> = new Set([
  'qwen3_coder',
  'glm45',
  'glm47',
  'kimi_k2',
  'kimi_k25',
  'deepseek_v4',
  'deepseek-v4',
  'deepseekv4',
]);

/** Whether a parser name exists in the generation that was asked for (`DYN_PARSER_VERSION`). */
export function hasParserOfVersion(name: string, version: 'auto' | '1' | '2'): boolean {
  return version !== '2' || name === '' || OF_SECOND_GENERATION.has(name);
}

/** What is known of a parser name. */
export type ToolCallParserDescription =
  | {
      readonly kind: 'built';
      /** The markers are special tokens: the request needs `skip_special_tokens: false` unless the client set it. */
      readonly keepsSpecialTokens: boolean;
      /** Marker texts whose tokens, where they end generation, must be shown. */
      readonly endTokens: readonly string[];
    }
  | { readonly kind: 'refused'; readonly message: string };

/** Names that can be configured. */
export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...FORMATS.keys()].sort();

/** Looks a name up, to be asked when a worker registers; `message` says what is wrong with a name that cannot serve. */
export function describeToolCallParser(name: string): ToolCallParserDescription {
  const format = FORMATS.get(name);
  if (format !== undefined) {
    return {
      kind: 'built',
      keepsSpecialTokens: format.keepsSpecialTokens ?? false,
      endTokens: format.endTokens ?? [],
    };
  }
  const available = `Available parsers: [${TOOL_CALL_PARSER_NAMES.join(', ')}]`;
  const message = TOOL_CALL_PARSERS_WITHOUT_GRAMMAR.includes(name)
    ? `Parser '${name}' is known by name only: the format of its tool calls is not published. ${available}`
    : `Parser '${name}' is not implemented. ${available}`;
  return { kind: 'refused', message };
}

/**
 * The parser for one choice, or `undefined` when its text is all content: no tools, `tool_choice: "none"`,
 * or no parser configured while the choice is not forced.
 *
 * @param name as the model's card has it; empty counts as absent. A name that `describeToolCallParser` refuses throws.
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
