import { anything, Matcher, oneOf, textWith } from './match.ts';
import type { RecordedRow } from './records.ts';

/** What this product must answer; starts as the record and is rewritten by the differences below. May hold matchers. */
export interface Expectation {
  status: unknown;
  headers: Record<string, unknown>;
  body?: unknown;
  text?: unknown;
  frames?: unknown[];
  /** One entry a worker request; undefined = not looked at. */
  worker?: Record<string, unknown>[] | undefined;
}

/** A place where this product answers otherwise than the record. Nothing else may differ. */
export interface Difference {
  /** A ruling of rulings.md, a (seed) line or a Product rule of http-api.md. */
  readonly authority: string;
  readonly what: string;
  applies(row: RecordedRow, expected: Expectation): boolean;
  rewrite(expected: Expectation, row: RecordedRow): void;
}

export type Body = Record<string, unknown>;
export type Chunk = { choices?: Body[]; usage?: unknown; [key: string]: unknown };

export const isChat = (row: RecordedRow): boolean => /\/chat(\/completions)?$/.test(row.request.path);
export const isCompletions = (row: RecordedRow): boolean =>
  /\/(completions|cmp)$/.test(row.request.path) && !isChat(row);
export const byId = (pattern: RegExp) => (row: RecordedRow) => pattern.test(row.id);
export const requestBody = (row: RecordedRow): Body =>
  typeof row.request.body === 'object' && row.request.body !== null ? (row.request.body as Body) : {};

/** Codes that an error of that status may have (rulings.md, error table). */
const CODES: Readonly<Record<number, readonly string[]>> = {
  400: [
    'invalid_value',
    'missing_required_parameter',
    'unknown_parameter',
    'invalid_json',
    'context_length_exceeded',
    'unsupported_parameter',
  ],
  401: ['invalid_api_key'],
  403: ['insufficient_permissions'],
  404: ['model_not_found', 'not_found'],
  405: ['method_not_allowed'],
  413: ['request_too_large'],
  415: ['unsupported_media_type'],
  429: ['rate_limit_exceeded'],
  431: ['headers_too_large'],
  499: ['client_closed_request'],
  500: ['internal_error'],
  501: ['not_implemented'],
  502: ['bad_worker_response'],
  503: ['service_unavailable', 'worker_lost', 'server_overloaded'],
  504: ['deadline_exceeded'],
};

function typeOf(status: number): string {
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

export function envelope(status: number, message: unknown): Body {
  return { error: { message, type: typeOf(status), param: anything, code: oneOf(...(CODES[status] ?? [])) } };
}

/** The text of a message of ours for a recorded one: the same, or with the same names when a parser library wrote it. */
export function messageLike(recorded: string): unknown {
  const text = recorded.replace(/^Validation: /, '');
  const leadIn = 'Failed to deserialize the JSON body into the target type: ';
  if (text === 'Invalid request') return textWith(text); // ours may say more
  const detail = text.search(/, got String\(|: EOF while parsing/); // a parser library's words
  if (!text.startsWith(leadIn)) return detail < 0 ? text : textWith(text.slice(0, detail));
  const field = /(?:missing|unknown|duplicate) field `([^`]+)`/.exec(text)?.[1];
  return field === undefined ? textWith(leadIn) : textWith(leadIn, field);
}

export function isRecordedError(body: unknown): body is { message: string; code: number } {
  return typeof body === 'object' && body !== null && 'message' in body && 'code' in body;
}

export function errorFrame(frame: unknown): { message: string; code: number } | undefined {
  const data = (frame as { data?: { error?: { message: string; code: number } } }).data;
  return typeof data === 'object' ? data?.error : undefined;
}

export function chunksOf(expected: Expectation): Chunk[] {
  return (expected.frames ?? [])
    .map((frame) => (frame as { data?: unknown }).data)
    .filter((data): data is Chunk => typeof data === 'object' && data !== null && 'choices' in data);
}

/** Turns the expectation into a failure before anything was streamed. */
export function failWith(expected: Expectation, status: number, message: unknown): void {
  expected.status = status;
  expected.headers = { 'content-type': 'application/json' };
  expected.body = retyped(envelope(status, message), { message });
  delete expected.frames;
  delete expected.text;
}

/** Turns the expectation into the usual answer of a worker without a script, whatever it reads in detail. */
export function succeed(expected: Expectation): void {
  expected.status = 200;
  expected.headers = { 'content-type': 'application/json' };
  expected.body = anything;
  expected.worker = undefined;
}

/** Failures of a worker as the error table has them, by the recorded code or type. */
export const CLASSES: Readonly<Record<string, { readonly status: number; readonly message: string }>> = {
  WorkerUnavailable: { status: 503, message: 'Service temporarily unavailable' },
  CannotConnect: { status: 503, message: 'Service temporarily unavailable' },
  EngineShutdown: { status: 503, message: 'Service temporarily unavailable' },
  StreamIncomplete: { status: 503, message: 'Service temporarily unavailable' },
  Cancelled: { status: 499, message: 'Request cancelled' },
  401: { status: 401, message: 'Authentication required' },
  404: { status: 404, message: 'Resource not found' },
  413: { status: 413, message: 'Payload too large' },
  415: { status: 415, message: 'Unsupported media type' },
  429: { status: 429, message: 'Rate limit exceeded' },
  502: { status: 502, message: 'Bad gateway' },
  503: { status: 503, message: 'Service temporarily unavailable' },
  529: { status: 503, message: 'Service temporarily overloaded' },
};

/** A batch of several prompts. */
export function isBatch(row: RecordedRow): boolean {
  const { prompt } = requestBody(row);
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number';
}

/** Order of frames by the prompt they belong to; frames of one prompt keep theirs. */
export function byPrompt(a: unknown, b: unknown): number {
  return promptOf(a) - promptOf(b);
}

function promptOf(frame: unknown): number {
  const { data } = frame as { data?: unknown };
  if (typeof data !== 'object' || data === null) return 1000; // [DONE]
  const index = /-(\d+)$/.exec(String((data as Chunk).id))?.[1];
  return index === undefined ? 999 : Number(index);
}

/** Every byte is a token of the fixture model, apart from its control tokens. */
export function tokensOf(prompt: string): number {
  return Buffer.byteLength(prompt.replaceAll(/<\|(endoftext|im_start|im_end)\|>/g, '\u0000'));
}

export function includesUsage(row: RecordedRow): boolean {
  const options = requestBody(row).stream_options as { include_usage?: boolean } | undefined;
  return row.server === 'env1' || options?.include_usage === true;
}

export function isOverloadBody(body: unknown): boolean {
  return (body as { error?: { message?: unknown } } | undefined)?.error?.message === 'Service temporarily overloaded';
}

/** Overload has a type of its own (ruling 2); a code may be any of its status. */
export function retyped(body: Body, { message }: { readonly message: unknown }): Body {
  const error = body.error as Body;
  if (message === 'Service temporarily overloaded')
    Object.assign(error, { type: 'overloaded_error', code: 'server_overloaded' });
  return body;
}

export function splitRole(frame: unknown): unknown[] {
  const { data } = frame as { data?: Chunk };
  const choice = data?.choices?.[0] as { delta?: Body; finish_reason?: unknown; logprobs?: unknown } | undefined;
  if (data === undefined || choice?.delta?.role === undefined) return [frame];
  const { role, ...rest } = choice.delta;
  const first = { ...choice, delta: { role, content: '' }, finish_reason: null, logprobs: null };
  const isRoleOnly = Object.keys(rest).length === 0 && choice.finish_reason === null && choice.logprobs === null;
  const nvext = data.nvext as Body | undefined;
  const { completion_token_ids: _ids, timing: _timing, ...shared } = nvext ?? {};
  const roleChunk = { ...data, choices: [first], ...(nvext === undefined ? {} : { nvext: shared }) };
  if (Object.keys(shared).length === 0) delete (roleChunk as Body).nvext;
  if (data.usage != null) (roleChunk as Body).usage = anything;
  return isRoleOnly
    ? [{ data: roleChunk }]
    : [{ data: roleChunk }, { data: { ...data, choices: [{ ...choice, delta: rest }] } }];
}

export function replaceReplacementBytes(expected: Expectation): void {
  const trueBytes = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(trueBytes);
    if (typeof value !== 'object' || value === null || value instanceof Matcher) return value;
    const record = Object.fromEntries(Object.entries(value).map(([key, nested]) => [key, trueBytes(nested)]));
    if (record.token === '\ufffd') {
      record.bytes = new Matcher(
        'one true byte',
        (bytes) => Array.isArray(bytes) && bytes.length === 1 && bytes[0] >= 128,
      );
    }
    return record;
  };
  expected.body = trueBytes(expected.body);
  if (expected.frames !== undefined) expected.frames = expected.frames.map(trueBytes);
}
