import { chatSchema, completionsSchema } from './chat-schema.ts';
import { RESPONSES_KEYS } from './responses/body-schema.ts';

/** Published keys of chat that no type is asked of. */
const CHAT_UNTYPED = ['prompt_cache_options', 'prompt_cache_retention', 'safety_identifier', 'verbosity'];

/** Refused by name, before unknown keys are looked at. */
const CHAT_REFUSED = ['function_call', 'functions', 'moderation'];

/** Every root key that a chat body may carry, the refused ones too; any other is refused with `unknown_parameter`. */
export const CHAT_KEYS: ReadonlySet<string> = new Set([
  ...Object.keys(chatSchema.shape),
  ...CHAT_UNTYPED,
  ...CHAT_REFUSED,
]);

/** Those that a client can use: what the description of the API shows. */
export const CHAT_USABLE_KEYS: readonly string[] = [...CHAT_KEYS].filter((key) => !CHAT_REFUSED.includes(key));

/** Every root key that a completions body may carry. */
export const COMPLETIONS_KEYS: ReadonlySet<string> = new Set(Object.keys(completionsSchema.shape));

/** Root keys of `body` that are not among `known`, in the order in which they stand there. */
export function unknownKeys(body: Readonly<Record<string, unknown>>, known: ReadonlySet<string>): readonly string[] {
  const unknown: string[] = [];
  for (const key in body) if (!known.has(key)) unknown.push(key);
  return unknown;
}

/** Keys that may be told by their names: those of some dialect here, a list that no client can make longer. */
const NAMED: ReadonlySet<string> = new Set([...CHAT_KEYS, ...COMPLETIONS_KEYS, ...RESPONSES_KEYS]);

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
  return [...new Set(unknownKeys(body, known).map((key) => (NAMED.has(key) ? key : OTHER)))];
}
