/**
 * Variables that a deployment of the HTTP function sets. The CDK stack gives a value for each of them, by type, and its
 * test compares both lists, so that none can be forgotten or misspelt. Every other setting has a default that suits a
 * function; `docs/configuration.md` describes them all.
 */
export const HTTP_FUNCTION_VARIABLES = [
  'DYN_DISCOVERY_BACKEND',
  'STATOR_DISCOVERY_TABLE',
  'STATOR_AUTH',
  'STATOR_KEYS_TABLE',
  'STATOR_KEY_CACHE_SECS',
  'STATOR_METRICS_AUTH',
  'STATOR_DOCS_AUTH',
  'STATOR_SECRETS_TABLE',
  'STATOR_RESPONSES_TABLE',
  'STATOR_ARTIFACTS_BUCKET',
  'DYN_REQUEST_PLANE',
  'DYN_ROUTER_MODE',
  'DYN_ENABLE_ANTHROPIC_API',
  'DYN_HTTP_BODY_LIMIT_MB',
  'DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS',
  'STATOR_DEADLINE_MARGIN_SECS',
  'DYN_LOG',
  'DYN_LOGGING_JSONL',
] as const;

/**
 * Variables that only some deployments set: how long requests wait for a worker, and where a planner hears of them; how
 * many tokens are for requests that name no number; the namespaces of several generations.
 */
export const HTTP_FUNCTION_CHOICES = [
  'STATOR_HOLD_TIMEOUT',
  'STATOR_PLANNER_TABLE',
  'STATOR_MAX_TOKENS_DEFAULT',
  'DYN_NAMESPACE_PREFIX',
] as const;

/** Name of one of `HTTP_FUNCTION_CHOICES`. */
export type HttpFunctionChoice = (typeof HTTP_FUNCTION_CHOICES)[number];

/** Name of one of `HTTP_FUNCTION_VARIABLES`. */
export type HttpFunctionVariable = (typeof HTTP_FUNCTION_VARIABLES)[number];
