import { anything, Matcher, oneOf, textWith } from './dynamo-http/match.ts';
import type { RecordedRow } from './dynamo-http/records.ts';

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
interface Difference {
  /** A ruling of rulings.md, a (seed) line or a Product rule of http-api.md. */
  readonly authority: string;
  readonly what: string;
  applies(row: RecordedRow, expected: Expectation): boolean;
  rewrite(expected: Expectation, row: RecordedRow): void;
}

type Body = Record<string, unknown>;
type Chunk = { choices?: Body[]; usage?: unknown; [key: string]: unknown };

const isChat = (row: RecordedRow): boolean => /\/chat(\/completions)?$/.test(row.request.path);
const isCompletions = (row: RecordedRow): boolean => /\/(completions|cmp)$/.test(row.request.path) && !isChat(row);
const byId = (pattern: RegExp) => (row: RecordedRow) => pattern.test(row.id);
const requestBody = (row: RecordedRow): Body =>
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

function envelope(status: number, message: unknown): Body {
  return { error: { message, type: typeOf(status), param: anything, code: oneOf(...(CODES[status] ?? [])) } };
}

/** The text of a message of ours for a recorded one: the same, or with the same names when a parser library wrote it. */
function messageLike(recorded: string): unknown {
  const text = recorded.replace(/^Validation: /, '');
  const leadIn = 'Failed to deserialize the JSON body into the target type: ';
  if (text === 'Invalid request') return textWith(text); // ours may say more
  const detail = text.search(/, got String\(|: EOF while parsing/); // a parser library's words
  if (!text.startsWith(leadIn)) return detail < 0 ? text : textWith(text.slice(0, detail));
  const field = /(?:missing|unknown|duplicate) field `([^`]+)`/.exec(text)?.[1];
  return field === undefined ? textWith(leadIn) : textWith(leadIn, field);
}

function isRecordedError(body: unknown): body is { message: string; code: number } {
  return typeof body === 'object' && body !== null && 'message' in body && 'code' in body;
}

function errorFrame(frame: unknown): { message: string; code: number } | undefined {
  const data = (frame as { data?: { error?: { message: string; code: number } } }).data;
  return typeof data === 'object' ? data?.error : undefined;
}

function chunksOf(expected: Expectation): Chunk[] {
  return (expected.frames ?? [])
    .map((frame) => (frame as { data?: unknown }).data)
    .filter((data): data is Chunk => typeof data === 'object' && data !== null && 'choices' in data);
}

/** Turns the expectation into a failure before anything was streamed. */
function failWith(expected: Expectation, status: number, message: unknown): void {
  expected.status = status;
  expected.headers = { 'content-type': 'application/json' };
  expected.body = retyped(envelope(status, message), { message });
  delete expected.frames;
  delete expected.text;
}

/** Turns the expectation into the usual answer of a worker without a script, whatever it reads in detail. */
function succeed(expected: Expectation): void {
  expected.status = 200;
  expected.headers = { 'content-type': 'application/json' };
  expected.body = anything;
  expected.worker = undefined;
}

/** Rows whose worker is silent for longer than a comment or the head may wait. */
export const IDLE_ROWS = /^(e2\.(keepalive|timeout)|e1\.peek\.slow)$/;

/** Applied in this order. */
export const DIFFERENCES: readonly Difference[] = [
  {
    authority: 'ruling 29',
    what: 'a prompt at or over the context is refused in the frontend',
    applies: (row) => row.product?.code === 'context_length_exceeded',
    rewrite: (expected) => {
      failWith(expected, 400, textWith('maximum context length is'));
      expected.worker = [];
    },
  },
  {
    authority: 'ruling 29',
    what: 'absent max_tokens is filled with what is left of the context, a larger one is clamped to it',
    applies: (_row, expected) => expected.worker !== undefined,
    rewrite: (expected, row) => {
      for (const seen of expected.worker ?? []) {
        if (seen.prompt_embeds !== undefined || typeof seen.prompt !== 'string') continue;
        const context = requestBody(row).model === 'ctx64' ? 64 : 4096;
        const stop = seen.stop_conditions as Body;
        const asked = typeof stop.max_tokens === 'number' ? stop.max_tokens : Number.POSITIVE_INFINITY;
        stop.max_tokens = new Matcher('the smaller of what was asked and what is left', (value) => {
          const left = context - tokensOf(String(seen.prompt));
          return value === Math.min(asked, left);
        });
      }
    },
  },
  {
    authority: 'ruling 47',
    what: 'top_p 0 is greedy; n > 1 goes with temperature 0',
    applies: byId(/^(chat\.p\.top_p\.1|cmp\.n2t0|chat\.p\.n2\.t0)$/),
    rewrite: succeed,
  },
  {
    authority: 'ruling 11',
    what: 'published keys that change nothing about the answer are accepted',
    applies: (row) => /`(safety_identifier|verbosity)`/.test(String((row.body as Body | undefined)?.message)),
    rewrite: succeed,
  },
  {
    authority: 'ruling 12',
    what: 'session and agent keys of nvext are known',
    applies: byId(/^chat\.p\.nvext\.(13|14)$/),
    rewrite: succeed,
  },
  {
    authority: 'Product rule (http-api.md 12.1)',
    what: 'sampling fields are still read in nvext',
    applies: byId(/^chat\.p\.nvext\.(15|16|17)$/),
    rewrite: succeed,
  },
  {
    authority: 'Product rule (http-api.md 12.1)',
    what: 'greed_sampling sends temperature 0',
    applies: byId(/^chat\.p\.nvext\.5$/),
    rewrite: (expected) => {
      for (const seen of expected.worker ?? []) (seen.sampling_options as Body).temperature = 0;
    },
  },
  {
    authority: 'http-api.md 3.1 (logit_bias is an OpenAI parameter that is honoured, ruling 11)',
    what: 'logit_bias reaches the worker; 1.6.1 checks and drops it',
    applies: byId(/^chat\.p\.logit_bias\.0$/),
    rewrite: (expected) => {
      for (const seen of expected.worker ?? []) (seen.sampling_options as Body).logit_bias = { 5: 100 };
    },
  },
  {
    authority: 'http-api.md 3.1 (detokenize and allowed_token_ids are passed to the worker)',
    what: 'they stand in sampling_options instead of extra_args',
    applies: byId(/\.(detokenize|allowed_token_ids)(\.0)?$/),
    rewrite: (expected, row) => {
      const { detokenize, allowed_token_ids } = requestBody(row);
      for (const seen of expected.worker ?? []) {
        Object.assign(seen.sampling_options as Body, { detokenize, allowed_token_ids });
      }
    },
  },
  {
    authority: 'Product rule (http-api.md 4.1)',
    what: 'a suffix is refused: nothing here fills in the middle',
    applies: (row) =>
      isCompletions(row) && typeof requestBody(row).suffix === 'string' && requestBody(row).suffix !== '',
    rewrite: (expected) => {
      failWith(expected, 501, textWith('suffix'));
      expected.worker = [];
    },
  },
  {
    authority: 'Product rule (http-api.md 4.1)',
    what: 'echo repeats the prompt',
    applies: (row) => isCompletions(row) && requestBody(row).echo === true,
    rewrite: (expected, row) => {
      const prompt = String(requestBody(row).prompt);
      const first = chunksOf(expected)[0]?.choices?.[0] ?? (expected.body as { choices: Body[] }).choices[0];
      if (first !== undefined) first.text = prompt + String(first.text);
    },
  },
  {
    authority: 'Product rule (http-api.md 3.2)',
    what: 'a worker that sends nothing is a failure for a unary request',
    applies: byId(/nochunks\.u$/),
    rewrite: (expected) => failWith(expected, 500, 'Internal server error'),
  },
  {
    authority: 'Product rule (http-api.md 3.4)',
    what: 'log probabilities carry the true bytes of a token that is a part of a character',
    applies: (row) => requestBody(row).logprobs === true,
    rewrite: (expected) => replaceReplacementBytes(expected),
  },
  {
    authority: 'http-api.md 3.4 (a skipped special token appears with token "" and bytes null)',
    what: 'also among the alternatives, where 1.6.1 names it',
    applies: (row) => requestBody(row).logprobs !== undefined,
    rewrite: (expected) => hideSpecialAlternatives(expected),
  },
  {
    authority: 'http-api.md 4.2 (the same object in both modes), ruling 47',
    what: 'completions without alternatives have an empty list, also for the end token',
    applies: byId(/^cmp\.lp0\./),
    rewrite: (expected) => {
      const choices = [
        ...chunksOf(expected).flatMap((chunk) => chunk.choices ?? []),
        ...((expected.body as { choices?: Body[] } | undefined)?.choices ?? []),
      ];
      for (const choice of choices) {
        const logprobs = choice.logprobs as { top_logprobs: unknown[] } | undefined;
        if (logprobs !== undefined) logprobs.top_logprobs = [];
      }
    },
  },
  {
    authority: 'ruling 15',
    what: 'the `_ENV` names set the paths, so the rows that show them ignored belong to a run without',
    applies: byId(/^e1\.(a\.|chat\.a$|cmp\.a$)/),
    rewrite: succeed,
  },
  {
    authority: 'http-api.md 12.1 (worker filter)',
    what: 'required taints filter in every router mode',
    applies: byId(/^chat\.p\.nvext\.19$/),
    rewrite: (expected) => {
      failWith(expected, 400, textWith('Invalid request'));
      expected.worker = [];
    },
  },
  {
    authority: 'ruling 47',
    what: "a worker's InvalidArgument is 400 with its own message, which a Python handler's hides in 1.6.1 (http-api.md 2.4)",
    applies: (row) =>
      /^(ValueError|TypeError|InvalidArgument)$/.test(row.worker_script?.raise?.type ?? '') ||
      [400, 422].includes(row.worker_script?.raise?.code ?? 0),
    rewrite: (expected, row) => {
      const frames = expected.frames ?? [];
      const hasText = frames.some((frame) => (frame as { data?: Chunk }).data?.choices !== undefined);
      const message = row.worker_script?.raise?.msg ?? '';
      if (hasText) frames.splice(-2, 1, { data: { error: { message, code: 400 } } });
      else failWith(expected, 400, message);
    },
  },
  {
    authority: 'ruling 1 and ruling 2 (error table)',
    what: "a worker's failure keeps its class: lost and unavailable are 503, cancelled 499, bad gateway 502, overload 503",
    applies: (row) => row.worker_script?.raise !== undefined,
    rewrite: (expected, row) => {
      const failure = CLASSES[String(row.worker_script?.raise?.code ?? row.worker_script?.raise?.type)];
      if (failure === undefined) return;
      const frames = expected.frames ?? [];
      const hasText = frames.some((frame) => (frame as { data?: Chunk }).data?.choices !== undefined);
      if (hasText) frames.splice(-2, 1, { data: { error: { message: failure.message, code: failure.status } } });
      else failWith(expected, failure.status, failure.message);
    },
  },
  {
    authority: 'ruling 3',
    what: 'a failure before the first token has its HTTP status, also on a stream',
    applies: (_row, expected) => expected.frames !== undefined && errorFrame(expected.frames[0]) !== undefined,
    rewrite: (expected) => {
      const failure = errorFrame(expected.frames?.[0]);
      if (failure !== undefined) failWith(expected, failure.code, failure.message);
    },
  },
  {
    authority: 'ruling 1',
    what: 'errors inside a stream have the envelope of all others',
    applies: (_row, expected) => (expected.frames ?? []).some((frame) => errorFrame(frame) !== undefined),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).map((frame) => {
        const failure = errorFrame(frame);
        return failure === undefined ? frame : { data: retyped(envelope(failure.code, failure.message), failure) };
      });
    },
  },
  {
    authority: 'Product rule (http-api.md 1)',
    what: 'a route that no model has switched on answers 404 with a body',
    applies: byId(/^empty\.(chat|cmp|chat\.get)$/),
    rewrite: (expected, row) => {
      if (row.id === 'empty.chat.get') failWith(expected, 405, textWith('not allowed'));
      else failWith(expected, 404, 'Model not found');
      if (row.id === 'empty.chat.get') expected.headers.allow = 'POST';
    },
  },
  {
    authority: 'ruling 1 (error table: 405)',
    what: 'a method that a path does not take is told in the envelope',
    applies: (row) => row.status === 405 && row.text === '',
    rewrite: (expected) => {
      const { allow } = expected.headers;
      failWith(expected, 405, textWith('not allowed'));
      expected.headers.allow = allow;
    },
  },
  {
    authority: 'ruling 1',
    what: 'the error body is nested, its code a string, its message without `Validation: `',
    applies: (_row, expected) => isRecordedError(expected.body),
    rewrite: (expected) => {
      if (!isRecordedError(expected.body)) return;
      const { message, code } = expected.body;
      expected.body = retyped(envelope(code, messageLike(message)), { message });
    },
  },
  {
    authority: 'ruling 2',
    what: 'overload is told with Retry-After',
    applies: (_row, expected) => isOverloadBody(expected.body),
    rewrite: (expected) => {
      expected.headers['retry-after'] = '1';
    },
  },
  {
    authority: 'ruling 47',
    what: 'chat chunks say `usage: null` when usage comes at the end',
    applies: (row, expected) => isChat(row) && expected.frames !== undefined && includesUsage(row),
    rewrite: (expected) => {
      for (const chunk of chunksOf(expected)) if (chunk.usage === undefined) chunk.usage = null;
    },
  },
  {
    authority: 'ruling 5',
    what: 'a chunk that only says the role comes first for each choice',
    applies: (row, expected) => isChat(row) && chunksOf(expected).length > 0,
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).flatMap((frame) => splitRole(frame));
    },
  },
  {
    authority: 'ruling 14',
    what: 'the memory plane has its own transport',
    applies: (row) => row.request.path.endsWith('/health'),
    rewrite: (expected) => {
      const body = expected.body as { instances?: Body[]; instances_note?: unknown } | undefined;
      if (body?.instances === undefined) return;
      delete body.instances_note;
      for (const instance of body.instances) instance.transport = anything;
    },
  },
  {
    authority: 'http-api.md 4.3 (the streams of a batch are interleaved)',
    what: 'in which order the prompts of a batch speak is a matter of timing',
    applies: (row, expected) => isBatch(row) && expected.frames !== undefined,
    rewrite: (expected) => {
      expected.frames?.sort(byPrompt);
    },
  },
  {
    authority: 'http-api.md 14.2 (stop strings are looked for token by token)',
    what: 'an output that begins before min_tokens and ends after it is searched from there on; 1.6.1 lets it pass whole',
    applies: byId(/^chat\.stop\.min\./),
    rewrite: (expected) => {
      const usage = { prompt_tokens: 43, completion_tokens: 8, total_tokens: 51 };
      const body = expected.body as { choices: { message: Body }[]; usage: unknown } | undefined;
      if (body?.choices[0] !== undefined) {
        body.choices[0].message.content = 'aENDb';
        body.usage = usage;
      }
      for (const chunk of chunksOf(expected)) {
        const choice = chunk.choices?.[0];
        if (chunk.usage !== null) chunk.usage = usage;
        if ((choice?.delta as Body | undefined)?.content !== 'bEND') continue;
        Object.assign(choice as Body, { delta: { content: 'b' }, finish_reason: 'stop' });
      }
      expected.frames?.splice(3, 1); // the finish has its own chunk in the record
    },
  },
  {
    authority: 'ruling 48 (a frame for each engine output) and runtime-and-workers.md 2.6 (TOKENS carries tokens)',
    what: 'an output without a token does not travel, so it opens no choice',
    applies: byId(/^e1\.peek\.slow$/),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).slice(1);
    },
  },
  {
    authority: 'http-api.md 2.5 (comments while idle)',
    what: 'how many comments fit into a silence is a matter of timing',
    applies: byId(IDLE_ROWS),
    rewrite: (expected) => {
      expected.frames = (expected.frames ?? []).filter((frame) => (frame as { comment?: string }).comment !== '');
    },
  },
  {
    authority: 'http-api.md 17.1 (1.6.1 takes the silent worker out of service), ruling 37 (it migrates)',
    what: 'with no other worker the request that meets a silent one fails with the time-out itself',
    applies: byId(/^e2\.timeout\.u$/),
    rewrite: (expected) => failWith(expected, 504, 'Request deadline exceeded'),
  },
];

/** Failures of a worker as the error table has them, by the recorded code or type. */
const CLASSES: Readonly<Record<string, { readonly status: number; readonly message: string }>> = {
  WorkerUnavailable: { status: 503, message: 'Service temporarily unavailable' },
  CannotConnect: { status: 503, message: 'Service temporarily unavailable' },
  EngineShutdown: { status: 503, message: 'Service temporarily unavailable' },
  StreamIncomplete: { status: 503, message: 'Service temporarily unavailable' },
  Cancelled: { status: 499, message: 'Request cancelled' },
  401: { status: 401, message: 'Authentication required' },
  404: { status: 404, message: 'Resource not found' },
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
function tokensOf(prompt: string): number {
  return Buffer.byteLength(prompt.replaceAll(/<\|(endoftext|im_start|im_end)\|>/g, '\u0000'));
}

function includesUsage(row: RecordedRow): boolean {
  const options = requestBody(row).stream_options as { include_usage?: boolean } | undefined;
  return row.server === 'env1' || options?.include_usage === true;
}

function isOverloadBody(body: unknown): boolean {
  return (body as { error?: { message?: unknown } } | undefined)?.error?.message === 'Service temporarily overloaded';
}

/** Overload has a type of its own (ruling 2); a code may be any of its status. */
function retyped(body: Body, { message }: { readonly message: unknown }): Body {
  const error = body.error as Body;
  if (message === 'Service temporarily overloaded')
    Object.assign(error, { type: 'overloaded_error', code: 'server_overloaded' });
  return body;
}

function splitRole(frame: unknown): unknown[] {
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

function replaceReplacementBytes(expected: Expectation): void {
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

function hideSpecialAlternatives(expected: Expectation): void {
  const hidden = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(hidden);
    if (typeof value !== 'object' || value === null || value instanceof Matcher) return value;
    const record = Object.fromEntries(
      Object.entries(value).map(([key, nested]) => [key === '<|im_end|>' ? '' : key, hidden(nested)]),
    );
    return record.token === '<|im_end|>' ? { ...record, token: '', bytes: null } : record;
  };
  expected.body = hidden(expected.body);
  if (expected.frames !== undefined) expected.frames = expected.frames.map(hidden);
}
