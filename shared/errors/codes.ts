/** Meaning of one error code on every wire. */
interface CodeRow {
  /** HTTP status. */
  readonly status: number;
  /** `error.type` of OpenAI-family bodies. */
  readonly openAiType: string;
  /** `error.type` of Anthropic bodies. */
  readonly anthropicType: string;
  /** gRPC status number. */
  readonly grpc: number;
  /** `error_type` label of the frontend's request counter. */
  readonly metric: string;
  /** Log level, which tells a client's mistake, a full system and a broken system apart. */
  readonly level: 'debug' | 'warn' | 'error';
  /** `Retry-After` in seconds, for failures that do not set it themselves. */
  readonly retryAfterMs?: number;
}

/**
 * Time after which a client may retry, for failures that do not set it. Without a hint, clients retry after a fraction
 * of a second or not at all.
 */
const RETRY_MS = 1000;

const INVALID = {
  status: 400,
  openAiType: 'invalid_request_error',
  anthropicType: 'invalid_request_error',
  grpc: 3,
  metric: 'validation',
  level: 'debug',
} as const;
const NOT_FOUND = { ...INVALID, status: 404, anthropicType: 'not_found_error', grpc: 5, metric: 'not_found' } as const;
const BROKEN = {
  status: 500,
  openAiType: 'server_error',
  anthropicType: 'api_error',
  grpc: 13,
  metric: 'internal',
  level: 'error',
} as const;
const FULL = {
  status: 503,
  openAiType: 'server_error',
  anthropicType: 'overloaded_error',
  grpc: 14,
  metric: 'unavailable',
  level: 'warn',
  retryAfterMs: RETRY_MS,
} as const;

const LIMITED = {
  status: 429,
  openAiType: 'rate_limit_error',
  anthropicType: 'rate_limit_error',
  grpc: 8,
  metric: 'overload',
  level: 'warn',
} as const;

const CODES = {
  invalid_value: INVALID,
  missing_required_parameter: INVALID,
  unknown_parameter: INVALID,
  invalid_json: INVALID,
  context_length_exceeded: INVALID,
  unsupported_parameter: INVALID,
  invalid_api_key: { ...INVALID, status: 401, anthropicType: 'authentication_error', grpc: 16 },
  insufficient_permissions: { ...INVALID, status: 403, anthropicType: 'permission_error', grpc: 7 },
  model_not_found: NOT_FOUND,
  not_found: NOT_FOUND,
  previous_response_not_found: NOT_FOUND,
  method_not_allowed: { ...INVALID, status: 405, grpc: 12 },
  request_too_large: { ...INVALID, status: 413, anthropicType: 'request_too_large', grpc: 8 },
  unsupported_media_type: { ...INVALID, status: 415 },
  websocket_not_supported: { ...INVALID, status: 426, grpc: 12 },
  headers_too_large: { ...INVALID, status: 431 },
  rate_limit_exceeded: { ...LIMITED, retryAfterMs: RETRY_MS },
  insufficient_quota: LIMITED,
  client_closed_request: { ...INVALID, status: 499, anthropicType: 'api_error', grpc: 1, metric: 'cancelled' },
  internal_error: BROKEN,
  bad_worker_response: { ...BROKEN, status: 502 },
  not_implemented: { ...BROKEN, status: 501, grpc: 12, metric: 'not_implemented', level: 'debug' },
  server_overloaded: { ...FULL, openAiType: 'overloaded_error', grpc: 8, metric: 'overload' },
  service_unavailable: FULL,
  worker_lost: FULL,
  deadline_exceeded: { ...BROKEN, status: 504, grpc: 4, metric: 'response_timeout', level: 'warn' },
} as const satisfies Record<string, CodeRow>;

/** Stable name of a failure. It is part of the public contract, so its meaning never changes. */
export type ErrorCode = keyof typeof CODES;

/** All error codes. */
export const errorCodes = Object.keys(CODES) as readonly ErrorCode[];

/** Returns the meaning of `code` on every wire. */
export function codeRow(code: ErrorCode): CodeRow {
  return CODES[code];
}

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(CODES, text);
}
