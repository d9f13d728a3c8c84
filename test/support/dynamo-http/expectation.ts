import { contractOf, LEAD_IN } from './error-contract.ts';
import { type Body, type Chunk, isMessages } from './fields.ts';
import { Matcher, textWith } from './match.ts';
import { faultOfDetail } from './parser-detail.ts';
import type { RecordedRow } from './records.ts';

/**
 * The answer that this product must give. It starts as the record, and the differences rewrite it. It may contain
 * matchers.
 */
export interface Expectation {
  status: unknown;
  headers: Record<string, unknown>;
  body?: unknown;
  text?: unknown;
  frames?: unknown[];
  /** One entry for each request to a worker; empty if no worker received one. */
  worker: Record<string, unknown>[];
  /** Whether the chunks of the stream may differ from the record. The comparison then joins them first. */
  isJoined?: boolean;
}

/** A difference between this product and the record. Nothing else may differ. */
export interface Difference {
  /** The reason, as a fact. */
  readonly why: string;
  applies(row: RecordedRow, expected: Expectation): boolean;
  rewrite(expected: Expectation, row: RecordedRow): void;
}

/** A failure that a client receives. */
export interface Failure {
  readonly status: number;
  /** Message as recorded, or as it would have been. It decides the code and the field. */
  readonly message: string;
  /** Message of Stator. @default the message, except for words of a parser library */
  readonly told?: unknown;
  /**
   * @default the code of status and message
   */
  readonly code?: string;
  /**
   * @default the field that the message blames
   */
  readonly param?: unknown;
}

/** Returns the error object of OpenAI's dialects. */
export function openAiError(row: RecordedRow, { status, message, told, code, param }: Failure): Body {
  const plain = message.replace(/^Validation: /, '');
  const contract = contractOf(row, status, plain);
  const named = code ?? contract.code;
  return {
    message: told ?? messageLike(plain),
    type: openAiType(status, named),
    param: param === undefined ? contract.param : param,
    code: named,
  };
}

function openAiType(status: number, code: string): string {
  if (code === 'server_overloaded') return 'overloaded_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  499: 'api_error',
  503: 'overloaded_error',
  529: 'overloaded_error',
};

/** Returns the error object of Anthropic's dialect. */
export function anthropicError({ status, message, told }: Failure): Body {
  const type = ANTHROPIC_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type, message: told ?? messageLike(message.replace(/^Validation: /, '')) };
}

/**
 * Returns the text that our message must have for a recorded one. It is the same, or has the same names if a parser
 * library wrote the recorded one.
 */
export function messageLike(text: string): unknown {
  if (text === 'Invalid request') return textWith(text); // our message may say more
  if (text.startsWith(LEAD_IN)) {
    const fault = faultOfDetail(text.slice(LEAD_IN.length));
    return 'field' in fault ? textWith(LEAD_IN, fault.field) : longerThan(LEAD_IN);
  }
  const unknown = /: invalid nvext: unknown field (`[^`]+`)/.exec(text)?.[1];
  if (unknown !== undefined) return textWith('unknown field', unknown, 'nvext');
  const detail = text.search(/, got String\(|: EOF while parsing/); // words of a parser library
  return detail < 0 ? text : textWith(text.slice(0, detail));
}

/** Matches a text that continues after `start`, because the lead-in by itself says nothing. */
function longerThan(start: string): Matcher {
  return new Matcher(
    `${JSON.stringify(start)} and what is wrong`,
    (value) => typeof value === 'string' && value.startsWith(start) && value.length >= start.length + 8,
  );
}

/** Turns the expectation into a failure before the stream begins, in the dialect of the route. */
export function failWith(expected: Expectation, row: RecordedRow, failure: Failure): void {
  const { allow } = expected.headers;
  const isOverload = contractOf(row, failure.status, failure.message).code === 'server_overloaded';
  const asserted = failure.status === 529 ? 503 : failure.status; // each dialect has one status for overload
  const status = asserted === 503 && isOverload && isMessages(row) ? 529 : asserted;
  expected.status = status;
  expected.headers = {
    'content-type': 'application/json',
    ...(status === 405 ? { allow } : {}),
    ...(isOverload ? { 'retry-after': '1' } : {}),
  };
  expected.body = isMessages(row)
    ? { type: 'error', error: anthropicError({ ...failure, status }), request_id: ANTHROPIC_ID }
    : { error: openAiError(row, { ...failure, status }) };
  delete expected.frames;
  delete expected.text;
}

const ANTHROPIC_ID = new Matcher('an id of the request', (value) => /^req_[0-9a-zA-Z-]{8,}$/.test(String(value)));

/** Turns the expectation into a refusal: no worker receives the request. */
export function refuseWith(expected: Expectation, row: RecordedRow, failure: Failure): void {
  failWith(expected, row, failure);
  expected.worker = [];
}

export function isRecordedError(body: unknown): body is { message: string; code: number } {
  return typeof body === 'object' && body !== null && 'message' in body && 'code' in body;
}

/** Returns the failure in a recorded SSE event of OpenAI's dialects. */
export function errorFrame(frame: unknown): { message: string; code: number } | undefined {
  const { data } = frame as { data?: { error?: { message: string; code: number }; type?: unknown } };
  return typeof data === 'object' && data?.type === undefined ? data?.error : undefined;
}

export function chunksOf(expected: Expectation): Chunk[] {
  return (expected.frames ?? [])
    .map((frame) => (frame as { data?: unknown }).data)
    .filter((data): data is Chunk => typeof data === 'object' && data !== null && 'choices' in data);
}

/** Collects every choice of the answer, streamed or not. */
export function choicesOf(expected: Expectation): Body[] {
  const whole = (expected.body as { choices?: Body[] } | undefined)?.choices ?? [];
  return [...chunksOf(expected).flatMap(({ choices }) => choices ?? []), ...whole];
}
