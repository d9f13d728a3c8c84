import { REASONING_PARSERS_WITHOUT_GRAMMAR, type ReasoningParserName } from '../../config/index.ts';
import type { AnswerConstraint } from './guided-start.ts';
import { HARMONY_MARKERS, HARMONY_OPENER } from './harmony-parser.ts';
import { INKLING_MARKERS, INKLING_OPENER } from './inkling-parser.ts';
import { type CompiledMarkers, compileMarkers, type MarkerGrammar } from './marker-parser.ts';

/** Parts of a request that decide whether its text is split. */
export interface ReasoningRequest {
  /** `chat_template_args`, extended by `thinking` and `reasoning_effort`. */
  readonly templateArgs?: Readonly<Record<string, unknown>> | undefined;
  /** Role of the last message. */
  readonly lastRole?: string | undefined;
  /**
   * Whether `tool_choice` is `required` or names a function: then the engine writes bare JSON from its first token on.
   */
  readonly forcesTool?: boolean | undefined;
  /** Rendered prompt, or its last 200 characters. */
  readonly promptText: string;
  /** Markers of tool calls that this model writes for nothing else; they end reasoning. @default none */
  readonly callTokens?: readonly string[] | undefined;
  /**
   * Constraint of the answer in the engine. Some engines apply it from the first token on, some after the reasoning.
   */
  readonly constraint?: AnswerConstraint | undefined;
}

/** Mode of splitting. `strip-opener`: everything except a leading opener is content. */
type SplitMode = 'split' | 'skip' | 'strip-opener';
/** Decides the mode by the format's own conditions. */
type SplitRule = (request: ReasoningRequest) => SplitMode;

type TemplateArgs = Readonly<Record<string, unknown>>;

const argsOf = (request: ReasoningRequest): TemplateArgs => request.templateArgs ?? {};

/** Returns the boolean `thinking` or `enable_thinking`; undefined when neither is a boolean. */
function thinkingFlag(args: TemplateArgs): boolean | undefined {
  if (typeof args.thinking === 'boolean') return args.thinking;
  return typeof args.enable_thinking === 'boolean' ? args.enable_thinking : undefined;
}

/**
 * Returns whether the request sets a reasoning effort. An effort of `none` asks for no reasoning, so it does not count.
 */
function hasEffort(args: TemplateArgs): boolean {
  return args.reasoning_effort !== undefined && args.reasoning_effort !== null && args.reasoning_effort !== 'none';
}

/** Returns whether the request asks its template for an answer without reasoning. */
export function isSwitchedOff(request: ReasoningRequest): boolean {
  const args = argsOf(request);
  return thinkingFlag(args) === false || args.thinking_mode === 'chat' || args.thinking_mode === 'disabled';
}

const splitUnlessSwitchedOff: SplitRule = (request) => (isSwitchedOff(request) ? 'skip' : 'split');

const splitWhenThinking: SplitRule = (request) => (thinkingFlag(argsOf(request)) === true ? 'split' : 'skip');

const splitWhenEffort: SplitRule = (request) => (hasEffort(argsOf(request)) ? 'split' : 'skip');

const splitWhenThinkingOrEffort: SplitRule = (request) =>
  splitWhenThinking(request) === 'split' ? 'split' : splitWhenEffort(request);

const splitAsKimi: SplitRule = (request) =>
  argsOf(request).thinking === false || request.lastRole === 'tool' ? 'skip' : 'split';

const splitAsNemotron: SplitRule = (request) => {
  const args = argsOf(request);
  return args.enable_thinking === false || args.force_nonempty_content === true ? 'strip-opener' : 'split';
};

/** Grammar of a reasoning format. */
export type ReasoningGrammar =
  | { readonly kind: 'markers'; readonly markers: CompiledMarkers }
  | { readonly kind: 'harmony' }
  | { readonly kind: 'inkling' }
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

/** Formats of every name that the configuration accepts. */
export const REASONING_FORMATS: readonly ReasoningFormat[] = [
  ...marked(['basic', 'qwen3', 'nemotron_deci', 'glm45', 'deepseek_v41', 'glm47', 'kimi_k2', 'qwen3_coder'], THINK),
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
  ...marked(['deepseek_r1'], THINK_FROM_START, { ...SPECIAL, splitRule: splitUnlessSwitchedOff }),
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
  toFormat('gpt_oss', { kind: 'harmony' }, HARMONY_MARKERS, { ...SPECIAL, promptOpeners: [HARMONY_OPENER] }),
  ...marked(
    ['gemma4'],
    { openers: ['<|channel>'], closers: ['<channel|>'], label: 'thought\n' },
    { ...SPECIAL, promptOpeners: ['<|channel>', '<|channel>thought'], splitRule: splitWhenThinking },
  ),
  toFormat('inkling', { kind: 'inkling' }, INKLING_MARKERS, { ...SPECIAL, promptOpeners: [INKLING_OPENER] }),
];

/** Result of looking up a configured name. */
export type FoundFormat =
  | { readonly kind: 'found'; readonly format: ReasoningFormat }
  /** Unknown name: `basic` replaces it, and `warning` is for the log. */
  | { readonly kind: 'fallback'; readonly format: ReasoningFormat; readonly warning: string }
  /** Known name without a published grammar: the model cannot be registered with it. */
  | { readonly kind: 'refused'; readonly reason: string };

const BY_KEY: ReadonlyMap<string, ReasoningFormat> = new Map(
  REASONING_FORMATS.map((format) => [keyOf(format.name), format]),
);
const FALLBACK = BY_KEY.get('basic')!; // `basic` is in the table

/**
 * Looks up a reasoning parser by its configured name; ignores case, hyphens and underscores.
 * @example
 * const found = findReasoningFormat('deepseek-v4');
 * if (found.kind === 'refused') throw new ServeError('invalid_value', found.reason);
 */
export function findReasoningFormat(name: string): FoundFormat {
  const format = BY_KEY.get(keyOf(name));
  if (format !== undefined) return { kind: 'found', format };
  const known = REASONING_FORMATS.map((one) => one.name).join(', ');
  if (REASONING_PARSERS_WITHOUT_GRAMMAR.some((one) => keyOf(one) === keyOf(name))) {
    return {
      kind: 'refused',
      reason: `reasoning parser '${name}' is recognised, but its format is not published; use one of: ${known}`,
    };
  }
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
