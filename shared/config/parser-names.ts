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
  'deepseek_v41',
  'cohere_command4',
  'hy_v3',
  'functiongemma',
  'xlam',
  'apertus',
  'gigachat3',
  'gigachat35',
  'minicpm5',
  'dots',
  'solar_open2',
  'granite_20b_fc',
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
  apertus2509: 'apertus',
  cohere_command3: 'cohere_command4',
  deepseek_v31: 'deepseek_v3_1',
  deepseek_v32: 'deepseek_v3_2',
  deepseekv3: 'deepseek_v3',
  deepseekv31: 'deepseek_v3_1',
  deepseekv32: 'deepseek_v3_2',
  deepseekv41: 'deepseek_v41',
  ernie45: 'hermes',
  glm: 'glm45',
  'gpt-oss': 'harmony',
  'granite-20b-fc': 'granite_20b_fc',
  granite4: 'hermes',
  hunyuan: 'hy_v3',
  hunyuan_a13b: 'jamba',
  hy_v4: 'hy_v3',
  interns1: 'internlm',
  ling3: 'glm47',
  llama3: 'llama3_json',
  llama4_json: 'llama3_json',
  llama4_pythonic: 'pythonic',
  mimo: 'qwen3_coder',
  'minimax-m2': 'minimax_m2',
  openai: 'harmony',
  phi4_mini_json: 'phi4',
  qwen: 'qwen25',
  qwen3_json: 'hermes',
  qwen3_xml: 'qwen3_coder',
  spark25: 'glm47',
  step3p5: 'qwen3_coder',
  trinity: 'hermes',
};

/** Tool-call parsers that exist elsewhere, but whose format is not published. */
export const TOOL_CALL_PARSERS_WITHOUT_GRAMMAR: readonly string[] = ['muse', 'muse_glimmer', 'typescript'];

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
  'cohere_command4',
  'hy_v3',
  'apertus',
  'solar_open2',
  'holo2',
] as const;

export type ReasoningParserName = (typeof REASONING_PARSERS)[number];

/** Other spellings of reasoning parsers, and names that engines use for the same formats. */
export const REASONING_PARSER_SPELLINGS: Readonly<Record<string, ReasoningParserName>> = {
  apertus2509: 'apertus',
  cohere_command3: 'cohere_command4',
  deepseekv4: 'deepseek_v4',
  'gpt-oss': 'gpt_oss',
  hunyuan: 'hy_v3',
  hy_v4: 'hy_v3',
  interns1: 'qwen3',
  ling3: 'qwen3',
  mimo: 'qwen3',
  minimax_m2_append_think: 'minimax_append_think',
  olmo3: 'qwen3',
  openai_gptoss: 'gpt_oss',
  poolside_v1: 'qwen3',
  step3p5: 'qwen3',
};

/** Reasoning parsers that exist elsewhere, but whose format is not published. */
export const REASONING_PARSERS_WITHOUT_GRAMMAR: readonly string[] = ['muse', 'muse_glimmer'];
