import {
  type Body,
  byId,
  type Difference,
  type Expectation,
  errorFrame,
  failWith,
  messageLike,
  tokensOf,
} from './expectation.ts';
import { anything, Matcher, textWith } from './match.ts';
import type { RecordedRow } from './records.ts';

const saysVersion = ({ request }: RecordedRow): boolean =>
  (request.headers ?? []).some(([name]) => name === 'anthropic-version');

/** Rows of Anthropic's routes, and of clients of that API on the routes of models, where it is on. */
const isMessages = (row: RecordedRow): boolean =>
  (row.server === 'default' && row.request.path.startsWith('/v1/messages')) ||
  (row.server === 'default' && row.request.path.startsWith('/v1/models') && saysVersion(row)) ||
  (row.server === 'env2' && row.request.path.startsWith('/b/msg'));

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
};

function typeOf(status: number): string {
  return TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
}

/** What `count_tokens` has to count: the prompts of the rows that ask it. */
const COUNTED: Readonly<Record<string, string>> = {
  'msg.count.0':
    '<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHello, world<|im_end|>\n<|im_start|>assistant\n',
  'msg.count.5':
    '<|im_start|>tools\n[{"type": "function", "function": {"name": "get_time", "description": "d", "parameters": ' +
    '{"type": "object", "properties": {"tz": {"type": "string"}}}}}]<|im_end|>\n' +
    '<|im_start|>user\nhéé<|im_end|>\n<|im_start|>assistant\n',
  'msg.count.6': '<|im_start|>user\n<image><|im_end|>\n<|im_start|>assistant\n',
  'e2.count': '<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n',
};

type MessageFrame = { event?: string; data?: Body };

const framesOf = (expected: Expectation): MessageFrame[] => (expected.frames ?? []) as MessageFrame[];

/** Every `usage` object of the answer. */
function usagesOf(expected: Expectation): Body[] {
  const holders = framesOf(expected).flatMap(({ data }) => [data, data?.message as Body | undefined]);
  return [expected.body as Body | undefined, ...holders]
    .map((holder) => holder?.usage as Body | undefined)
    .filter((usage) => usage !== undefined);
}

/** Where Anthropic's dialect differs from the record. Applied after all others, which speak OpenAI's envelope. */
export const MESSAGES_DIFFERENCES: readonly Difference[] = [
  {
    authority: 'ruling 9',
    what: 'count_tokens uses the real tokenizer and template',
    applies: (row) => COUNTED[row.id] !== undefined,
    rewrite: (expected, row) => {
      expected.body = { input_tokens: tokensOf(COUNTED[row.id] ?? '') };
    },
  },
  {
    authority: 'Product rule (http-api.md 7.1)',
    what: 'pictures may be given by URL',
    applies: byId(/^msg\.in\.imageurl$/),
    rewrite: (expected) => {
      expected.status = 200;
      expected.body = anything;
    },
  },
  {
    authority: 'ruling 3',
    what: 'a failure before the first event has its HTTP status, also on a stream',
    applies: (row, expected) =>
      isMessages(row) && expected.frames !== undefined && errorFrame(expected.frames[1]) !== undefined,
    rewrite: (expected) => failWith(expected, 500, errorFrame(expected.frames?.[1])?.message),
  },
  {
    authority: 'Product rule (http-api.md 2.1)',
    what: 'a body that cannot be read is told in the envelope, not in plain text',
    applies: (row) => isMessages(row) && row.headers['content-type']?.startsWith('text/plain') === true,
    rewrite: (expected, row) => {
      const isType = row.status === 415;
      const message = isType
        ? 'Expected request with Content-Type application/json'
        : messageLike('Failed to deserialize the JSON body into the target type: ');
      failWith(expected, isType ? 415 : 400, message);
    },
  },
  {
    authority: 'ruling 12 (the wording is ours, ruling 1)',
    what: 'an unknown key of nvext is named',
    applies: byId(/^msg\.p\.nvext2$/),
    rewrite: (expected) => failWith(expected, 400, textWith('`foo`')),
  },
  {
    authority: 'ruling 1 (error table: Anthropic)',
    what: 'the same failures in the envelope of Anthropic, with the id of the answer; the wording of parsers is ours',
    applies: (row, expected) => isMessages(row) && (expected.body as Body | undefined)?.error !== undefined,
    rewrite: (expected) => {
      const { message } = (expected.body as { error: { message: unknown } }).error;
      const isText = typeof message === 'string';
      const error = { type: typeOf(Number(expected.status)), message: isText ? messageLike(message) : message };
      expected.body = { type: 'error', error, request_id: textWith('req_') };
    },
  },
  {
    authority: 'ruling 9',
    what: 'blocks stand in the order of generation',
    applies: byId(/^msg\.tool\.u$/),
    rewrite: (expected) => void (expected.body as { content: Body[] }).content.reverse(),
  },
  {
    authority: 'ruling 10 and ruling 23',
    what: 'a call inside of which the text ended is not repaired: its arguments so far, as they are',
    applies: byId(/^msg\.toolcut\./),
    rewrite: (expected) => {
      const soFar = '{"tz": "U';
      const call = (expected.body as { content?: Body[] } | undefined)?.content?.[0];
      if (call !== undefined) call.input = { INVALID_JSON: soFar };
      for (const { data } of framesOf(expected)) {
        const delta = data?.delta as Body | undefined;
        if (delta?.type === 'input_json_delta') delta.partial_json = soFar;
      }
    },
  },
  {
    authority: 'ruling 9',
    what: 'usage always says what was read from the cache, and deltas carry none',
    applies: (row, expected) => isMessages(row) && usagesOf(expected).length > 0,
    rewrite: (expected) => {
      for (const usage of usagesOf(expected)) usage.cache_read_input_tokens ??= 0;
      for (const { data } of framesOf(expected)) if (data?.type === 'content_block_delta') delete data.usage;
    },
  },
  {
    authority: 'ruling 9',
    what: 'a stream says the true length of the prompt from its start, pings then, and tells the stop sequence at its end',
    applies: (row, expected) => isMessages(row) && framesOf(expected)[0]?.event === 'message_start',
    rewrite: (expected, row) => {
      const frames = framesOf(expected);
      const prompt = row.worker_request?.[0]?.prompt;
      const started = frames[0]?.data?.message as { usage: Body };
      started.usage.input_tokens = tokensOf(String(prompt));
      frames.splice(1, 0, { event: 'ping', data: { type: 'ping' } });
      for (const { data } of frames) {
        if (data?.type === 'message_delta') (data.delta as Body).stop_sequence ??= null;
      }
    },
  },
  {
    authority: 'ruling 4',
    what: 'a stream ends with message_stop',
    applies: (row, expected) => isMessages(row) && (framesOf(expected).at(-1)?.data as unknown) === '[DONE]',
    rewrite: (expected) => {
      expected.frames?.pop();
    },
  },
  {
    authority: 'http-api.md 9.4 (the order of models is not part of the record)',
    what: 'models are sorted by name, and made at the time of asking',
    applies: (row) => /\.anth$|models\.limit$/.test(row.id) && row.server === 'default',
    rewrite: (expected) => {
      const body = expected.body as { data?: Body[]; first_id?: unknown; last_id?: unknown; created_at?: unknown };
      if (body.created_at !== undefined) body.created_at = MASKED;
      if (body.data === undefined) return;
      body.data.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
      for (const model of body.data) model.created_at = MASKED;
      body.first_id = body.data[0]?.id;
      body.last_id = body.data.at(-1)?.id;
    },
  },
  {
    authority: 'http-api.md 17.1',
    what: 'how much a client had read when it left is a matter of timing',
    applies: byId(/^disc\.msg$/),
    rewrite: (expected) => {
      const all = framesOf(expected);
      expected.frames = new Matcher(
        'a start of the recorded frames',
        (frames) => Array.isArray(frames) && frames.length > 0 && frames.length <= all.length,
      ) as unknown as unknown[];
    },
  },
];

/** A time, as the runner shows it. */
const MASKED = 0;
