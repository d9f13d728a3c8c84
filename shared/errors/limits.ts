import type { ErrorCode } from './codes.ts';

/** One limit, and what happens beyond it. */
interface LimitRow {
  /** Description of the counted thing, for docs/limits.md. */
  readonly what: string;
  /** The number, or the setting that contains it. */
  readonly max: number | string;
  /** Larger limit that some requests have, for docs/limits.md. */
  readonly orMore?: string;
  /**
   * Error code of a request beyond the limit. It is absent if the request does not fail; `beyond` then says what
   * happens.
   */
  readonly code?: ErrorCode;
  readonly beyond?: string;
}

const KIBIBYTE = 1024;

/** Limits that Stator enforces before it trusts a request. Their names are labels of the counter of refusals. */
export const LIMITS = {
  head_bytes: { what: 'Bytes of request line and headers', max: 544 * KIBIBYTE, code: 'headers_too_large' },
  unfinished_heads_bytes: {
    what: 'Bytes of all incomplete request heads, of all connections',
    max: 16 * KIBIBYTE * KIBIBYTE,
    beyond: 'the connections that hold the most are closed',
  },
  grpc_connections: {
    what: 'Connections of gRPC clients',
    max: 'STATOR_GRPC_MAX_CONNECTIONS',
    beyond:
      'the address with the most connections loses one that has no accepted call; if there is none, the new connection is closed',
  },
  websockets: {
    what: 'WebSocket connections. At the limit, a new one replaces the longest idle connection of the client address that has the most, if the new address has at least two connections fewer',
    max: 1024,
    code: 'server_overloaded',
  },
  websocket_events: {
    what: 'Events of one WebSocket that wait for the response under way',
    max: 64,
    beyond: 'the connection is closed with 1008',
  },
  websocket_memory_bytes: {
    what: 'Bytes of all responses that WebSocket connections remember',
    max: 256 * KIBIBYTE * KIBIBYTE,
    beyond: 'Stator forgets the oldest; a request that names one fails with `previous_response_not_found`',
  },
  header_lines: { what: 'Header lines of a request', max: 100, code: 'headers_too_large' },
  console_viewers: {
    what: 'Viewers of the console who follow it at the same time',
    max: 64,
    code: 'server_overloaded',
  },
  held_requests: {
    what: 'Requests that wait at the same time for the first workers to start',
    max: 256,
    beyond: 'further requests do not wait: 503 `service_unavailable`',
  },
  metadata_headers: { what: 'Metadata headers of a request', max: 64, code: 'headers_too_large' },
  metadata_bytes: { what: 'Bytes of all metadata headers', max: 64 * KIBIBYTE, code: 'headers_too_large' },
  body_bytes: { what: 'Bytes of a body, unpacked', max: 'DYN_HTTP_BODY_LIMIT_MB', code: 'request_too_large' },
  bodies_bytes: {
    what: 'Bytes of all bodies and gRPC messages that are being read',
    max: 'STATOR_HTTP_BODY_BUDGET_MB',
    code: 'server_overloaded',
  },
  body_containers: { what: 'Objects and arrays of a large body', max: 100_000, code: 'request_too_large' },
  body_elements: { what: 'Elements of one array of a large body', max: 1_048_576, code: 'request_too_large' },
  body_memory: {
    what: 'Memory of the values of a large body',
    max: 8 * KIBIBYTE * KIBIBYTE,
    orMore: "1.5 times the body's size if that is more",
    code: 'request_too_large',
  },
  messages: { what: 'Messages, or items, of a conversation', max: 10_000, code: 'invalid_value' },
  parts: { what: 'Parts of one message, and calls in it', max: 10_000, code: 'invalid_value' },
  tools: { what: 'Tools of a request', max: 1536, code: 'invalid_value' },
  names: { what: 'Entries of a list of names, such as `nvext.annotations`', max: 1024, code: 'invalid_value' },
  guided_choices: { what: 'Texts of `guided_choice`', max: 10_000, code: 'invalid_value' },
  biases: { what: 'Tokens of `logit_bias`', max: 65_536, code: 'invalid_value' },
  listed_ids: { what: 'Ids of a list that is not a prompt', max: 524_288, code: 'invalid_value' },
  embedding_inputs: { what: 'Inputs of an embeddings request', max: 2048, code: 'invalid_value' },
  stops: { what: 'Stop sequences of a request', max: 32, code: 'invalid_value' },
  stop_bytes: { what: 'Bytes of one stop sequence', max: 'STATOR_STOP_MAX_BYTES', code: 'invalid_value' },
  salt_characters: { what: 'Characters of a `cache_salt`', max: 4096, code: 'invalid_value' },
  infer_entries: {
    what: 'Inputs, outputs, parameters or dimensions of a KServe request',
    max: 1024,
    code: 'invalid_value',
  },
  choices: { what: 'Prompts times `n` of a completions request', max: 128, code: 'invalid_value' },
  references: {
    what: 'Stored responses that the item references of a request name',
    max: 64,
    code: 'invalid_value',
  },
  resolved_bytes: {
    what: 'Bytes of everything that `previous_response_id` and item references name, counted each time',
    max: 'DYN_HTTP_BODY_LIMIT_MB',
    code: 'request_too_large',
  },
  answer_bytes: {
    what: 'Memory of one answer that is collected before it is sent',
    max: 'STATOR_HTTP_ANSWER_LIMIT_MB',
    code: 'invalid_value',
  },
  answers_bytes: {
    what: 'Memory of all answers that are collected before they are sent',
    max: 'STATOR_HTTP_ANSWER_BUDGET_MB',
    code: 'server_overloaded',
  },
  pictures: { what: 'Pictures of one form', max: 16, code: 'invalid_value' },
  picture_bytes: { what: 'Bytes of one picture of a form', max: 50 * KIBIBYTE * KIBIBYTE, code: 'invalid_value' },
  media_bytes: {
    what: 'Bytes of all media of a request, as a worker reads them',
    max: 'STATOR_MM_MAX_REQUEST_MB',
    code: 'invalid_value',
  },
  output_tokens: {
    what: 'Tokens of a choice that a worker makes',
    max: '`max_tokens`; without it `STATOR_MAX_TOKENS_DEFAULT`, or otherwise the rest of the context',
    beyond: 'the choice ends there with `length`; Stator tells the worker to stop and names it in the log',
  },
  stored_response_bytes: {
    what: 'Bytes of one stored response in the memory of a process',
    max: 'an eighth of STATOR_RESPONSE_STORE_MAX_MB',
    beyond: 'the answer says `store: false` and is not stored',
  },
} as const satisfies Record<string, LimitRow>;

/** Name of a limit. It is a label of the counter of refusals, so the list is closed. */
export type LimitName = keyof typeof LIMITS;

/** Limits beyond which a request fails. */
export type RefusingLimit = {
  [Name in LimitName]: (typeof LIMITS)[Name] extends { readonly code: ErrorCode } ? Name : never;
}[LimitName];

/** Limits with a fixed bound, which no setting changes. */
export type FixedLimit = {
  [Name in LimitName]: (typeof LIMITS)[Name]['max'] extends number ? Name : never;
}[LimitName];

/** Every limit, in the order in which a request meets them. */
export const limitNames = Object.keys(LIMITS) as readonly LimitName[];

/** Whether a peer sent a known name of a limit. */
export function isLimitName(text: unknown): text is LimitName {
  return typeof text === 'string' && Object.hasOwn(LIMITS, text);
}
