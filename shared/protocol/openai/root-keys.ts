import { chatSchema, completionsSchema } from './chat-schema.ts';
import { RESPONSES_KEYS } from './responses/body-schema.ts';

/** Published keys of chat whose types are not checked. */
const CHAT_UNTYPED = ['prompt_cache_options', 'prompt_cache_retention', 'safety_identifier', 'verbosity'];

/** Keys that are refused by name, before unknown keys are checked. */
const CHAT_REFUSED = ['function_call', 'functions', 'moderation'];

/** Every root key that a chat body may have, refused ones included; any other is refused with `unknown_parameter`. */
export const CHAT_KEYS: ReadonlySet<string> = new Set([
  ...Object.keys(chatSchema.shape),
  ...CHAT_UNTYPED,
  ...CHAT_REFUSED,
]);

/** Root keys that a client can use, for the description of the API. */
export const CHAT_USABLE_KEYS: readonly string[] = [...CHAT_KEYS].filter((key) => !CHAT_REFUSED.includes(key));

/** Every root key that a completions body may have. */
export const COMPLETIONS_KEYS: ReadonlySet<string> = new Set(Object.keys(completionsSchema.shape));

/** Returns the root keys of `body` that are not among `known`, in their order. */
export function unknownKeys(body: Readonly<Record<string, unknown>>, known: ReadonlySet<string>): readonly string[] {
  const unknown: string[] = [];
  for (const key in body) if (!known.has(key)) unknown.push(key);
  return unknown;
}

/** Keys that labels may name: those of some dialect here, a list that no client can extend. */
const NAMED: ReadonlySet<string> = new Set([...CHAT_KEYS, ...COMPLETIONS_KEYS, ...RESPONSES_KEYS]);

/** Label of every other key. */
const OTHER = 'other';

/**
 * Returns the root keys of `body` that its route does not know and ignores, as labels of a metric, each label once. A
 * label is the key's name if it has a meaning in another dialect (`max_tokens` sent to Responses), otherwise `other`.
 */
export function ignoredKeyLabels(
  body: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>,
): readonly string[] {
  return [...new Set(unknownKeys(body, known).map((key) => (NAMED.has(key) ? key : OTHER)))];
}
