/**
 * Tool-call parsers that users can choose: the only list of their names. `shared/parsers/tool-calls` implements each of
 * them.
 */
export const TOOL_CALL_PARSERS = [
  'hermes',
  'qwen25',
  'nemotron_deci',
  'llama3_json',
  'mistral',
  'phi4',
  'jamba',
  'default',
  'deepseek_v3',
  'deepseek_v3_1',
  'deepseek_v3_2',
  'deepseek_v4',
  'qwen3_coder',
  'nemotron_nano',
  'minimax_m2',
  'minimax_m3',
  'glm47',
  'kimi_k2',
  'kimi_k3',
  'gemma4',
  'harmony',
  'pythonic',
  'inkling',
  'poolside_v1',
  'minimax_m3_nom',
  'glm45',
  'kimi_k25',
  'qwen3',
  'step3',
  'seed_oss',
  'granite',
  'internlm',
  'longcat',
  'lfm2',
  'olmo3',
] as const;

export type ToolCallParserName = (typeof TOOL_CALL_PARSERS)[number];

/**
 * Other spellings that workers publish, and names that engines use for the same formats, with the names that they stand
 * for.
 */
export const TOOL_CALL_PARSER_SPELLINGS: Readonly<Record<string, ToolCallParserName>> = {
  'deepseek-v4': 'deepseek_v4',
  deepseekv4: 'deepseek_v4',
  'minimax-m3': 'minimax_m3',
  'minimax-m3-nom': 'minimax_m3_nom',
  'kimi-k3': 'kimi_k3',
  'gemma-4': 'gemma4',
  deepseek_v31: 'deepseek_v3_1',
  deepseek_v32: 'deepseek_v3_2',
  ernie45: 'hermes',
  granite4: 'hermes',
  hunyuan_a13b: 'jamba',
  ling3: 'glm47',
  llama4_json: 'llama3_json',
  llama4_pythonic: 'pythonic',
  mimo: 'qwen3_coder',
  openai: 'harmony',
  phi4_mini_json: 'phi4',
  qwen3_json: 'hermes',
  qwen3_xml: 'qwen3_coder',
  step3p5: 'qwen3_coder',
};

/** Tool-call parsers that exist elsewhere, but whose format is not published. */
export const TOOL_CALL_PARSERS_WITHOUT_GRAMMAR: readonly string[] = [
  'deepseek_v41',
  'muse',
  'muse_glimmer',
  'typescript',
];

/**
 * Reasoning parsers that users can choose: the only list of their names. `shared/parsers/reasoning` implements each of
 * them.
 */
export const REASONING_PARSERS = [
  'basic',
  'qwen3',
  'nemotron_deci',
  'glm45',
  'deepseek_v4',
  'deepseek_r1',
  'deepseek_v3_2',
  'deepseek_v3',
  'deepseek_v3_1',
  'step3',
  'nemotron_nano',
  'nemotron3',
  'nemotron_v3',
  'kimi_k25',
  'minimax_m2',
  'minimax_append_think',
  'minimax_m3',
  'mistral',
  'kimi',
  'kimi_k3',
  'granite',
  'gpt_oss',
  'gemma4',
  'inkling',
  'deepseek_v41',
  'glm47',
  'kimi_k2',
  'qwen3_coder',
  'seed_oss',
  'ernie45',
  'hunyuan_a13b',
] as const;

export type ReasoningParserName = (typeof REASONING_PARSERS)[number];

/** Reasoning parsers that exist elsewhere, but whose format is not published. */
export const REASONING_PARSERS_WITHOUT_GRAMMAR: readonly string[] = ['muse', 'muse_glimmer'];
