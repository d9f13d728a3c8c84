import { RESPONSES_KEYS } from './responses/body-schema.ts';
import { sharedFields } from './shared-fields.ts';

/**
 * Every root key a body may carry. `published` keys are OpenAI's own; `extension` keys are those of
 * what Dynamo takes. What is in neither list is refused with `unknown_parameter`.
 */
interface RouteKeys {
  readonly route: 'chat' | 'completions';
  /** Decoded and acted on. */
  readonly honoured: ReadonlySet<string>;
  /** Checked for their type where one is known, then dropped: they change nothing about the answer. */
  readonly ignored: ReadonlySet<string>;
}

/** Fields that chat and completions share and that reach the worker. */
const SHARED_HONOURED = [...Object.keys(sharedFields).filter((key) => key !== 'metadata'), 'logprobs', 'nvext'];

/** Refused by name, before unknown keys are looked at. */
const CHAT_REFUSED = ['function_call', 'functions', 'moderation'] as const;

export const CHAT_KEYS: RouteKeys = {
  route: 'chat',
  honoured: new Set([
    ...SHARED_HONOURED,
    'messages',
    'top_logprobs',
    'max_completion_tokens',
    'response_format',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'reasoning_effort',
    'add_generation_prompt',
    'continue_final_message',
    'chat_template_args',
    'chat_template_kwargs',
    'thinking',
    'media_io_kwargs',
    'mm_processor_kwargs',
    ...CHAT_REFUSED,
  ]),
  ignored: new Set([
    'metadata',
    'store',
    'service_tier',
    'modalities',
    'prediction',
    'audio',
    'prompt_cache_key',
    'prompt_cache_options',
    'prompt_cache_retention',
    'safety_identifier',
    'verbosity',
    'web_search_options',
  ]),
};

export const COMPLETIONS_KEYS: RouteKeys = {
  route: 'completions',
  honoured: new Set([...SHARED_HONOURED, 'prompt', 'prompt_embeds', 'suffix', 'best_of', 'echo']),
  ignored: new Set(['metadata']),
};

/** Root keys that a client can use on the route: what the description of the API shows. */
export function usableKeys(keys: RouteKeys): readonly string[] {
  const refused: readonly string[] = CHAT_REFUSED;
  return [...keys.honoured, ...keys.ignored].filter((key) => !refused.includes(key));
}

/** Root keys of `body` that the route does not know, in the order in which they stand there. */
export function unknownKeys(body: Readonly<Record<string, unknown>>, keys: RouteKeys): readonly string[] {
  const unknown: string[] = [];
  for (const key in body) {
    if (!keys.honoured.has(key) && !keys.ignored.has(key)) unknown.push(key);
  }
  return unknown;
}

/** Keys that may be told by their names: those of some dialect here, a list that no client can make longer. */
const NAMED: ReadonlySet<string> = new Set(
  [CHAT_KEYS, COMPLETIONS_KEYS]
    .flatMap(({ honoured, ignored }) => [...honoured, ...ignored])
    .concat([...RESPONSES_KEYS]),
);

/** What every other key is called. */
const OTHER = 'other';

/**
 * The root keys of `body` that its route does not know and therefore ignores, as labels of a metric: by name where the key
 * means something in another dialect (`max_tokens` sent to Responses), else `other`; each label once.
 */
export function ignoredKeyLabels(
  body: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>,
): readonly string[] {
  const labels = new Set<string>();
  for (const key in body) if (!known.has(key)) labels.add(NAMED.has(key) ? key : OTHER);
  return [...labels];
}
