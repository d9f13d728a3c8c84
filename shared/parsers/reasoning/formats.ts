import { REASONING_PARSER_SPELLINGS, type ReasoningParserName } from '../../config/index.ts';
import { HARMONY_MARKERS, HARMONY_OPENER } from './harmony-parser.ts';
import { INKLING_MARKERS, INKLING_OPENER } from './inkling-parser.ts';
import { type CompiledMarkers, compileMarkers, type MarkerGrammar } from './marker-parser.ts';
import { MUSE_MARKERS, MUSE_OPENER } from './muse-parser.ts';
import {
  PROMPT_TAIL_UNITS,
  type SplitRule,
  splitAsKimi,
  splitAsNemotron,
  splitUnlessSwitchedOff,
  splitWhenEffort,
  splitWhenThinking,
  splitWhenThinkingOrEffort,
} from './split-rules.ts';

/** Grammar of a reasoning format. */
export type ReasoningGrammar =
  | { readonly kind: 'markers'; readonly markers: CompiledMarkers }
  | { readonly kind: 'harmony' | 'inkling' | 'muse' }
  /** No split: content begins with `opener`, which stands in the prompt. */
  | { readonly kind: 'prepend'; readonly opener: string };

/** Registered name with its format. */
export interface ReasoningFormat {
  readonly name: ReasoningParserName;
  readonly grammar: ReasoningGrammar;
  /** Ends of a prompt, without white space after them, that leave the model inside reasoning. */
  readonly promptOpeners: readonly string[];
  /** Texts that decoding must keep for the format to work. */
  readonly markers: readonly string[];
  /** Whether the markers are special tokens in every model of this format. */
  readonly usesSpecialTokens: boolean;
  readonly splitRule: SplitRule | undefined;
  /** Returns the format with the markers of the model that a prompt was made for, if models differ in them. */
  readonly forPrompt?: (promptText: string) => ReasoningFormat;
}

interface FormatOptions {
  readonly usesSpecialTokens?: boolean;
  readonly splitRule?: SplitRule;
  /** @default the grammar's openers */
  readonly promptOpeners?: readonly string[];
}

type Names = readonly ReasoningParserName[];

const THINK = { openers: ['<think>'], closers: ['</think>'] } as const;
const THINK_FROM_START = { ...THINK, startsInside: true } as const;

/** Returns the tags around an answer, with the line ends that templates write there. */
function framingOf(tag: string): readonly string[] {
  return [`<${tag}>`, `<${tag}>\n`, `\n\n<${tag}>\n`, `</${tag}>`, `\n</${tag}>`, `\n</${tag}>\n`];
}

function marked(names: Names, grammar: MarkerGrammar, options: FormatOptions = {}): readonly ReasoningFormat[] {
  const { openers, closers, exits = [] } = grammar;
  const compiled = { kind: 'markers', markers: compileMarkers(grammar) } as const;
  const markers = [...openers, ...closers, ...exits];
  return names.map((name) => toFormat(name, compiled, markers, { promptOpeners: openers, ...options }));
}

function toFormat(
  name: ReasoningParserName,
  grammar: ReasoningGrammar,
  markers: readonly string[],
  options: FormatOptions,
): ReasoningFormat {
  const { usesSpecialTokens = false, splitRule, promptOpeners = [] } = options;
  return { name, grammar, markers, promptOpeners, usesSpecialTokens, splitRule };
}

const SPECIAL = { usesSpecialTokens: true } as const;
/** Tags of Cohere's models around an answer, of two generations. */
const COHERE_ANSWERS = ['<|START_RESPONSE|>', '<|START_TEXT|>'];

/** Tag of reasoning in a prompt. The suffix is the same in all tags of a model. */
const HUNYUAN_TAG = /<\/?think(:[\w.-]{1,32})?>/g;

/** Creates the format of Hunyuan's models, whose tags may have a suffix, such as `<think:opensource>`. */
function hunyuan(suffix: string): ReasoningFormat {
  const exits = [`<tool_calls${suffix}>`, `<tool_call${suffix}>`];
  const grammar = { openers: [`<think${suffix}>`], closers: [`</think${suffix}>`], exits };
  return marked(['hy_v3'], grammar, SPECIAL)[0]!; // one for each name
}

/** Returns the format with the tags of the model that a prompt was made for: its template ends a prompt with one. */
function hunyuanOfPrompt(promptText: string): ReasoningFormat {
  const tags = [...promptText.slice(-PROMPT_TAIL_UNITS).matchAll(HUNYUAN_TAG)];
  return hunyuan(tags.at(-1)?.[1] ?? '');
}

/** Formats of every name that the configuration accepts. */
export const REASONING_FORMATS: readonly ReasoningFormat[] = [
  ...marked(['basic', 'qwen3', 'nemotron_deci', 'glm45', 'glm47', 'kimi_k2', 'qwen3_coder'], THINK),
  ...marked(['seed_oss'], { openers: ['<seed:think>'], closers: ['</seed:think>'] }),
  ...marked(['ernie45'], { ...THINK_FROM_START, framing: framingOf('response') }),
  ...marked(['hunyuan_a13b'], {
    openers: ['<think>', '<think>\n'],
    closers: ['</think>', '\n</think>\n'],
    framing: framingOf('answer'),
  }),
  ...marked(
    ['deepseek_v4'],
    { ...THINK, exits: ['<｜DSML｜tool_calls>', '<｜DSML｜invoke name='] },
    { ...SPECIAL, splitRule: splitUnlessSwitchedOff },
  ),
  ...marked(
    ['deepseek_v41'],
    { ...THINK, exits: ['<｜DSML｜ calls>', '<｜DSML｜ invoke name='] },
    { ...SPECIAL, splitRule: splitUnlessSwitchedOff },
  ),
  ...marked(['deepseek_r1', 'holo2'], THINK_FROM_START, { ...SPECIAL, splitRule: splitUnlessSwitchedOff }),
  ...marked(['deepseek_v3_2'], THINK_FROM_START, SPECIAL),
  ...marked(['deepseek_v3', 'deepseek_v3_1'], THINK_FROM_START, { ...SPECIAL, splitRule: splitWhenThinkingOrEffort }),
  ...marked(['step3'], THINK_FROM_START),
  ...marked(['nemotron_nano', 'nemotron3', 'nemotron_v3'], THINK_FROM_START, { splitRule: splitAsNemotron }),
  ...marked(
    ['kimi_k25'],
    { ...THINK_FROM_START, exits: ['<|tool_calls_section_begin|>'] },
    { ...SPECIAL, splitRule: splitAsKimi },
  ),
  ...marked(['minimax_m2'], { ...THINK_FROM_START, exits: ['<minimax:tool_call>', '<invoke name='] }),
  toFormat('minimax_append_think', { kind: 'prepend', opener: '<think>' }, [], {}),
  ...marked(['minimax_m3'], {
    openers: ['<mm:think>'],
    closers: ['</mm:think>'],
    exits: [']<]minimax[>['],
  }),
  ...marked(
    ['mistral'],
    { openers: ['[THINK]'], closers: ['[/THINK]'], startsInside: true },
    { splitRule: splitWhenEffort },
  ),
  ...marked(['kimi'], { openers: ['◁think▷'], closers: ['◁/think▷'] }),
  ...marked(
    ['kimi_k3'],
    {
      openers: ['<|open|>think<|sep|>'],
      closers: ['<|close|>think<|sep|>'],
      exits: ['<|open|>', '<|close|>', '<|end_of_msg|>'],
      framing: [
        '<|open|>message<|sep|>',
        '<|close|>message<|sep|>',
        '<|open|>response<|sep|>',
        '<|close|>response<|sep|>',
        '<|end_of_msg|>',
      ],
    },
    SPECIAL,
  ),
  ...marked(['granite'], {
    openers: ["Here's my thought process:", 'Here is my thought process:'],
    closers: ["Here's my response:", 'Here is my response:'],
    isSingleBlock: true,
  }),
  ...marked(
    ['cohere_command4'],
    {
      openers: ['<|START_THINKING|>'],
      closers: ['<|END_THINKING|>'],
      exits: ['<|START_ACTION|>', ...COHERE_ANSWERS],
      framing: [...COHERE_ANSWERS, '<|END_RESPONSE|>', '<|END_TEXT|>'],
    },
    SPECIAL,
  ),
  { ...hunyuan(''), forPrompt: hunyuanOfPrompt },
  ...marked(['apertus'], { openers: ['<|inner_prefix|>'], closers: ['<|inner_suffix|>'] }, SPECIAL),
  ...marked(['solar_open2'], { openers: ['<|think:start|>'], closers: ['<|think:end|>'] }, SPECIAL),
  ...marked(
    ['plamo3'],
    {
      openers: ['<|plamo:begin_think:plamo|>'],
      closers: ['<|plamo:end_think:plamo|>'],
      exits: ['<|plamo:begin_tool_requests:plamo|>'],
    },
    SPECIAL,
  ),
  toFormat('gpt_oss', { kind: 'harmony' }, HARMONY_MARKERS, { ...SPECIAL, promptOpeners: [HARMONY_OPENER] }),
  ...marked(
    ['gemma4'],
    { openers: ['<|channel>'], closers: ['<channel|>'], label: 'thought\n' },
    { ...SPECIAL, promptOpeners: ['<|channel>', '<|channel>thought'], splitRule: splitWhenThinking },
  ),
  toFormat('muse_glimmer', { kind: 'muse' }, MUSE_MARKERS, { ...SPECIAL, promptOpeners: [MUSE_OPENER] }),
  toFormat('inkling', { kind: 'inkling' }, INKLING_MARKERS, { ...SPECIAL, promptOpeners: [INKLING_OPENER] }),
];

/** Result of looking up a configured name. */
export type FoundFormat =
  | { readonly kind: 'found'; readonly format: ReasoningFormat }
  /** Unknown name: `basic` replaces it, and `warning` is for the log. */
  | { readonly kind: 'fallback'; readonly format: ReasoningFormat; readonly warning: string };

const BY_NAME = new Map(REASONING_FORMATS.map((format) => [format.name, format]));
const BY_KEY: ReadonlyMap<string, ReasoningFormat> = new Map([
  ...REASONING_FORMATS.map((format) => [keyOf(format.name), format] as const),
  ...Object.entries(REASONING_PARSER_SPELLINGS).map(
    ([spelling, name]) => [keyOf(spelling), BY_NAME.get(name)!] as const, // every name is in the table
  ),
]);
const FALLBACK = BY_KEY.get('basic')!; // `basic` is in the table

/**
 * Looks up a reasoning parser by its configured name; ignores case, hyphens and underscores.
 * @example
 * const found = findReasoningFormat('deepseek-v4');
 * if (found.kind === 'fallback') log.warn(found.warning);
 */
export function findReasoningFormat(name: string): FoundFormat {
  const format = BY_KEY.get(keyOf(name));
  if (format !== undefined) return { kind: 'found', format };
  const known = REASONING_FORMATS.map((one) => one.name).join(', ');
  return {
    kind: 'fallback',
    format: FALLBACK,
    warning: `unknown reasoning parser '${name}', using 'basic'; known are: ${known}`,
  };
}

/** Returns the common key of a name's spellings: `deepseek_v4`, `deepseek-v4` and `deepseekv4` have the same one. */
function keyOf(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}
