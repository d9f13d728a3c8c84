import { unsupported } from '../field-checks.ts';

/**
 * Every root key of the published body, by what becomes of it. `echoed` keys come back in the answer and change nothing
 * else; `ignored` keys are read by nobody.
 */
const HONOURED = [
  'input',
  'model',
  'instructions',
  'tools',
  'stream',
  'store',
  'previous_response_id',
  'max_output_tokens',
  'temperature',
  'top_p',
  'top_logprobs',
  'tool_choice',
  'parallel_tool_calls',
  'reasoning',
  'text',
  'include',
  'nvext',
] as const;
const ECHOED = [
  'metadata',
  'truncation',
  'service_tier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
] as const;
const IGNORED = [
  'user',
  'stream_options',
  'context_management',
  'prompt_cache_options',
  'client_metadata', // what codex says of itself with every turn
] as const;
/** They change what is answered and nothing here can do it; the first three as recorded. */
const REFUSED = {
  background: 'not_implemented',
  prompt: 'not_implemented',
  max_tool_calls: 'not_implemented',
  conversation: 'unsupported_parameter',
  moderation: 'unsupported_parameter',
} as const;

/** Root keys that a client can use: what the description of the API shows. */
export const USABLE_KEYS: readonly string[] = [...HONOURED, ...ECHOED, ...IGNORED];
/** Root keys that mean something to the route, or are published and harmless. */
export const RESPONSES_KEYS: ReadonlySet<string> = new Set([...USABLE_KEYS, ...Object.keys(REFUSED)]);

/**
 * Refuses published keys that nobody can honour. Keys that nobody knows are let pass: agents send keys of their own, and
 * new ones with every release.
 * @throws ServeError `not_implemented`, `unsupported_parameter`.
 */
export function checkKeys(body: Readonly<Record<string, unknown>>): void {
  for (const [key, code] of Object.entries(REFUSED)) {
    if (body[key] != null && body[key] !== false) throw unsupported(key, code);
  }
}
