import type { ReasoningParserName } from '../../config/index.ts';
import { HARMONY_MARKERS, HARMONY_OPENER } from './harmony-parser.ts';
import { INKLING_MARKERS, INKLING_OPENER } from './inkling-parser.ts';
import { type CompiledMarkers, compileMarkers, type MarkerGrammar } from './marker-parser.ts';
import {
  type SplitRule,
  splitAsKimi,
  splitAsNemotron,
  splitUnlessSwitchedOff,
  splitWhenEffort,
  splitWhenThinking,
  splitWhenThinkingOrEffort,
} from './thinking.ts';

/** How a reasoning format is written. */
export type ReasoningGrammar =
  | { readonly kind: 'markers'; readonly markers: CompiledMarkers }
  | { readonly kind: 'harmony' }
  | { readonly kind: 'inkling' }
  /** No split: content begins with `opener`, which the prompt has. */
  | { readonly kind: 'prepend'; readonly opener: string };

/** A registered name and what it stands for. */
export interface ReasoningFormat {
  readonly name: ReasoningParserName;
  readonly grammar: ReasoningGrammar;
  /** Ends of a prompt, without white space after them, that leave the model inside reasoning. */
  readonly promptOpeners: readonly string[];
  /** Texts that must survive decoding for the format to work. */
  readonly markers: readonly string[];
  /** They are special tokens in every model of this format. */
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

/** Every name that the configuration takes. */
export const REASONING_FORMATS: readonly ReasoningFormat[] = [
  ...marked(['basic', 'qwen3', 'nemotron_deci', 'glm45', 'deepseek_v41', 'glm47', 'kimi_k2', 'qwen3_coder'], THINK),
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
