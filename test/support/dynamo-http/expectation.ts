import { contractOf, LEAD_IN } from './error-contract.ts';
import { type Body, type Chunk, isMessages } from './fields.ts';
import { Matcher, textWith } from './match.ts';
import { faultOfDetail } from './parser-detail.ts';
import type { RecordedRow } from './records.ts';

/** What this product must answer; starts as the record and is rewritten by the differences. May hold matchers. */
export interface Expectation {
  status: unknown;
  headers: Record<string, unknown>;
  body?: unknown;
  text?: unknown;
  frames?: unknown[];
  /** One entry a worker request; empty = no worker was asked. */
  worker: Record<string, unknown>[];
  /** How the stream is cut into chunks is not as recorded: it is compared by what it folds to. */
  isFolded?: boolean;
}

/** A place where this product answers otherwise than the record. Nothing else may differ. */
export interface Difference {
  /** The reason, as a fact. */
  readonly why: string;
  applies(row: RecordedRow, expected: Expectation): boolean;
  rewrite(expected: Expectation, row: RecordedRow): void;
}

/** A failure that a client is told. */
export interface Failure {
  readonly status: number;
  /** As recorded, or as it would be: decides on code and field. */
  readonly message: string;
  /** What ours reads. @default the message, apart from what a parser library worded */
  readonly told?: unknown;
  /** @default what status and message stand for */
  readonly code?: string;
  /** @default the field that the message is about */
  readonly param?: unknown;
}

/** The error object of OpenAI's dialects. */
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

/** The error object of Anthropic's dialect. */
export function anthropicError({ status, message, told }: Failure): Body {
  const type = ANTHROPIC_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type, message: told ?? messageLike(message.replace(/^Validation: /, '')) };
}

/** The text of a message of ours for a recorded one: the same, or with the same names when a parser library wrote it. */
export function messageLike(text: string): unknown {
  if (text === 'Invalid request') return textWith(text); // ours may say more
  if (text.startsWith(LEAD_IN)) {
    const fault = faultOfDetail(text.slice(LEAD_IN.length));
    return 'field' in fault ? textWith(LEAD_IN, fault.field) : longerThan(LEAD_IN);
  }
  const unknown = /: invalid nvext: unknown field (`[^`]+`)/.exec(text)?.[1];
  if (unknown !== undefined) return textWith('unknown field', unknown, 'nvext');
  const detail = text.search(/, got String\(|: EOF while parsing/); // a parser library's words
  return detail < 0 ? text : textWith(text.slice(0, detail));
}

/** The lead-in alone says nothing. */
function longerThan(start: string): Matcher {
  return new Matcher(
    `${JSON.stringify(start)} and what is wrong`,
    (value) => typeof value === 'string' && value.startsWith(start) && value.length >= start.length + 8,
  );
}

/** Turns the expectation into a failure before anything was streamed, in the dialect of the route. */
export function failWith(expected: Expectation, row: RecordedRow, failure: Failure): void {
  const { allow } = expected.headers;
  const isOverload = contractOf(row, failure.status, failure.message).code === 'server_overloaded';
  const asserted = failure.status === 529 ? 503 : failure.status; // overload has one status in each dialect
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

/** A refusal: no worker hears of the request. */
export function refuseWith(expected: Expectation, row: RecordedRow, failure: Failure): void {
  failWith(expected, row, failure);
  expected.worker = [];
}

export function isRecordedError(body: unknown): body is { message: string; code: number } {
  return typeof body === 'object' && body !== null && 'message' in body && 'code' in body;
}

/** The failure that an SSE event tells in OpenAI's dialects, as recorded. */
export function errorFrame(frame: unknown): { message: string; code: number } | undefined {
  const { data } = frame as { data?: { error?: { message: string; code: number }; type?: unknown } };
  return typeof data === 'object' && data?.type === undefined ? data?.error : undefined;
}

export function chunksOf(expected: Expectation): Chunk[] {
  return (expected.frames ?? [])
    .map((frame) => (frame as { data?: unknown }).data)
    .filter((data): data is Chunk => typeof data === 'object' && data !== null && 'choices' in data);
}

/** Every choice of the answer, streamed or not. */
export function choicesOf(expected: Expectation): Body[] {
  const whole = (expected.body as { choices?: Body[] } | undefined)?.choices ?? [];
  return [...chunksOf(expected).flatMap(({ choices }) => choices ?? []), ...whole];
}
