import {
  anthropicError,
  type Difference,
  type Expectation,
  errorFrame,
  type Failure,
  failWith,
  isRecordedError,
  openAiError,
} from '../expectation.ts';
import { type Body, isChat, isMessages, isResponses, isThresholds, pausesOf } from '../fields.ts';
import { textWith } from '../match.ts';
import type { RecordedRow } from '../records.ts';
import { failureOf } from '../worker-failures.ts';

type Event = { event?: string; data?: Body };

/** Seconds after which a stream sends its 200 in any case: 1 for `env1`, 2 for the others. */
const peekSeconds = ({ server }: RecordedRow): number => (server === 'env1' ? 1 : 2);

/** Whether the head was sent before the worker failed. */
function isCommitted(row: RecordedRow): boolean {
  const before = pausesOf(row).slice(0, row.script?.raise_at ?? Number.POSITIVE_INFINITY);
  return before.reduce((sum, pause) => sum + pause, 0) > peekSeconds(row);
}

/** Returns the failure in a recorded event of any dialect. */
function toldFailure(frame: unknown): Failure | undefined {
  const openAi = errorFrame(frame);
  if (openAi !== undefined) return { status: openAi.code, message: openAi.message };
  const { data } = frame as Event;
  if (data?.type === 'error') return ofDialect((data.error as Body).type, (data.error as Body).message);
  if (data?.type !== 'response.failed') return undefined;
  const { code, message } = (data.response as Body).error as Body;
  return ofDialect(code, message);
}

const STATUSES: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  invalid_prompt: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  overloaded_error: 503,
};

function ofDialect(type: unknown, message: unknown): Failure {
  return { status: STATUSES[String(type)] ?? 500, message: String(message) };
}

/** Returns the index of the event in a stream that reports a failure, or a negative number. */
const failureAt = ({ frames }: Expectation): number =>
  (frames ?? []).findIndex((frame) => toldFailure(frame) !== undefined);

/** Events that contain nothing of an answer. */
const OPENINGS: ReadonlySet<unknown> = new Set(['message_start', 'response.created', 'response.in_progress']);
const saysSomething = (frame: unknown): boolean => {
  const { event, data } = frame as Event;
  return !OPENINGS.has(event) && data !== undefined && !isEmptyChunk(data);
};

/** Whether a chunk is that of an output without a token. Stator does not send such a chunk, so it opens no choice. */
function isEmptyChunk(data: Body): boolean {
  const choices = (data.choices ?? []) as { delta?: Body; finish_reason?: unknown }[];
  return (
    choices.length > 0 &&
    choices.every(({ delta, finish_reason: reason }) => delta?.content === undefined && reason === null)
  );
}

/** Failures that Stator reports differently from 1.6.1. */
export const FAILURES: readonly Difference[] = [
  {
    why: "a worker's failure keeps its class, and a client's mistake the worker's message, which Python handlers hide in 1.6.1",
    applies: (row) => failureOf(row) !== undefined,
    rewrite: (expected, row) => {
      const failure = failureOf(row)!; // the difference applies
      const at = failureAt(expected);
      if (at >= 0) tellInStream(expected, row, at, failure);
      else if (Number(expected.status) >= 400) failWith(expected, row, failure);
    },
  },
  {
    why: 'a failure before the first text of an answer has its HTTP status, even on a stream',
    applies: (row, expected) => {
      const at = failureAt(expected);
      return at >= 0 && !isCommitted(row) && !(expected.frames ?? []).slice(0, at).some(saysSomething);
    },
    rewrite: (expected, row) => {
      const failure = failureOf(row) ?? toldFailure(expected.frames?.[failureAt(expected)]);
      if (failure !== undefined) failWith(expected, row, failure);
    },
  },
  {
    why: 'an output without a token does not travel, so it opens no choice',
    applies: (row, expected) => isChat(row) && failureAt(expected) >= 0,
    rewrite: (expected) => {
      const at = failureAt(expected);
      const before = (expected.frames ?? []).slice(0, at);
      if (!before.some(saysSomething)) expected.frames?.splice(0, at);
    },
  },
  {
    why: 'errors inside a stream have the envelope of all other errors',
    applies: (row, expected) => failureAt(expected) >= 0 && failureOf(row) === undefined,
    rewrite: (expected, row) => {
      const at = failureAt(expected);
      tellInStream(expected, row, at, toldFailure(expected.frames?.[at])!); // the condition has found one
    },
  },
  {
    why: 'a route that no model has switched on answers 404 with a body, or names the method that it takes',
    applies: (row) => row.status === 404 && row.text === '',
    rewrite: (expected, row) => {
      const { method, path } = row.request;
      const isServed = /^\/v1\/(?:chat\/completions|completions|images\/generations|images\/edits)$/.test(path);
      if (isServed && method !== 'POST') {
        expected.headers.allow = 'POST';
        failWith(expected, row, { status: 405, message: '', told: textWith(method, 'not allowed', path) });
      } else
        failWith(expected, row, {
          status: 404,
          message: isServed ? 'Model not found' : `Route not found: ${method} ${path}`,
        });
    },
  },
  {
    why: 'an error in the envelope answers a method that a path does not take',
    applies: (row) => row.status === 405 && row.text === '',
    rewrite: (expected, row) => {
      const { method, path } = row.request;
      failWith(expected, row, {
        status: 405,
        message: '',
        told: textWith(method, 'not allowed', path.split('?')[0] ?? ''),
      });
    },
  },
  {
    why: "the error body is the dialect's own: nested, its code a name, its message without `Validation: `",
    applies: (_row, expected) => isRecordedError(expected.body),
    rewrite: (expected, row) => {
      if (isRecordedError(expected.body))
        failWith(expected, row, { status: expected.body.code, message: expected.body.message });
    },
  },
  {
    why: "Anthropic's envelope names the request; the wording of parsers is ours",
    applies: (row, expected) => isMessages(row) && isBareAnthropicError(expected.body),
    rewrite: (expected, row) => {
      const { message } = (expected.body as { error: { message: string } }).error;
      failWith(expected, row, { status: Number(expected.status), message });
    },
  },
  {
    why: 'an error in the envelope of the route, not in plain text, answers a body that cannot be parsed',
    applies: (row) => row.headers['content-type']?.startsWith('text/plain') === true && Number(row.status) >= 400,
    rewrite: (expected, row) => {
      const isType = row.status === 415;
      const message = isType ? 'Expected request with Content-Type application/json' : NO_JSON;
      failWith(expected, row, { status: isType ? 415 : 400, message });
    },
  },
  {
    why: 'the route of thresholds has its own envelope, and our message for a body that is not JSON',
    applies: (row, expected) => isThresholds(row) && [400, 415, 422].includes(Number(expected.status)),
    rewrite: (expected, row) => {
      const recorded = (row.body as { error?: string } | undefined)?.error;
      if (recorded !== undefined)
        expected.body = { error: (openAiError(row, { status: 400, message: recorded }) as Body).message };
      else
        expected.body = {
          error: row.status === 415 ? textWith('Content-Type', 'application/json') : textWith('JSON body', ': '),
        };
    },
  },
];

const NO_JSON = 'Failed to deserialize the JSON body into the target type: EOF while parsing';

function isBareAnthropicError(body: unknown): boolean {
  const { error, request_id: id } = (body ?? {}) as Body;
  return typeof (error as Body | undefined)?.message === 'string' && id === undefined;
}

/** Replaces the event at `at` with our own event of the same failure. */
function tellInStream(expected: Expectation, row: RecordedRow, at: number, failure: Failure): void {
  const { frames } = expected;
  if (frames === undefined) return;
  if (isMessages(row)) {
    frames[at] = { event: 'error', data: { type: 'error', error: anthropicError(failure) } };
  } else if (isResponses(row)) {
    const { data } = frames[at] as { data: { response: Body } };
    const { status } = failure;
    const code = status === 429 ? 'rate_limit_exceeded' : status < 500 ? 'invalid_prompt' : 'server_error';
    data.response.error = { code, message: failure.told ?? failure.message };
  } else frames[at] = { data: { error: openAiError(row, failure) } };
}
