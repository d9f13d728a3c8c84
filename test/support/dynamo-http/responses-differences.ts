import { type Body, byId, type Difference, type Expectation, failWith, requestBody } from './expectation.ts';
import { anything, textWith } from './match.ts';
import type { RecordedRow } from './records.ts';

interface ResponseEvent {
  type: string;
  sequence_number: number;
  output_index?: number;
  item?: Body;
  response?: Body;
}
interface EventFrame {
  event?: string;
  data?: unknown;
}

const isResponses = (row: RecordedRow): boolean => row.request.path === '/v1/responses';

function framesOf(expected: Expectation): EventFrame[] {
  return Array.isArray(expected.frames) ? (expected.frames as EventFrame[]) : []; // another dialect's may be a matcher
}

function eventsOf(expected: Expectation): ResponseEvent[] {
  return framesOf(expected)
    .map((frame) => frame.data)
    .filter((data): data is ResponseEvent => typeof data === 'object' && data !== null && 'sequence_number' in data);
}

/** Every response object of an answer, streamed or not. */
function responsesOf(expected: Expectation): Body[] {
  const body = expected.body as Body | undefined;
  const streamed = eventsOf(expected).flatMap(({ response }) => (response === undefined ? [] : [response]));
  return body?.object === 'response' ? [body, ...streamed] : streamed;
}

const textOf = ({ content }: Body): number => (content === undefined ? 1 : 0);

/** Puts the message's last events in front of the call's first, and counts anew. */
function closeInOrder(expected: Expectation): void {
  const frames = framesOf(expected);
  const isLastOfMessage = ({ data }: EventFrame): boolean =>
    /(output_text|content_part|output_item)\.done$/.test((data as ResponseEvent).type ?? '') &&
    (data as ResponseEvent).output_index === 0;
  const ending = frames.filter(isLastOfMessage);
  const others = frames.filter((frame) => !isLastOfMessage(frame));
  const call = others.findIndex(({ data }) => (data as ResponseEvent).item?.type === 'function_call');
  others.splice(call, 0, ...ending);
  for (const [at, { data }] of others.entries()) {
    if (typeof data === 'object') (data as ResponseEvent).sequence_number = at;
  }
  expected.frames = others;
}

/** Where answers of the Responses API differ from the record. */
export const RESPONSES_DIFFERENCES: readonly Difference[] = [
  {
    authority: 'ruling 4',
    what: 'the last event of a response is the end of its stream',
    applies: (row, expected) => isResponses(row) && expected.frames !== undefined,
    rewrite: (expected) => {
      expected.frames = framesOf(expected).filter((frame) => frame.data !== '[DONE]');
    },
  },
  {
    authority: 'ruling 3',
    what: 'a failure before the first word has its HTTP status, also on a stream',
    applies: (row, expected) => isResponses(row) && eventsOf(expected)[2]?.type === 'response.failed',
    rewrite: (expected) => {
      const error = eventsOf(expected)[2]?.response?.error as { code: string; message: string };
      failWith(expected, error.code === 'rate_limit_exceeded' ? 429 : 500, error.message);
    },
  },
  {
    authority: 'ruling 8',
    what: 'responses are stored unless the client says otherwise',
    applies: (row, expected) => responsesOf(expected).length > 0 && requestBody(row).store !== false,
    rewrite: (expected) => {
      for (const response of responsesOf(expected)) response.store = true;
    },
  },
  {
    authority: 'ruling 8',
    what: 'the routes below a response exist, and tell of ids that they do not know',
    applies: byId(/^route\.(09\.DELETE|10\.POST)$/),
    rewrite: (expected) => failWith(expected, 404, "Response with id 'resp_1' not found."),
  },
  {
    authority: 'published contract (responses.compact)',
    what: 'conversations can be compacted; an empty body says nothing to compact and names no model',
    applies: (row, expected) => row.request.path === '/v1/responses/compact' && expected.status === 404,
    rewrite: (expected) => failWith(expected, 400, textWith('missing field `model`')),
  },
  {
    authority: 'ruling 7',
    what: 'items stand in the order of generation',
    applies: byId(/^rsp\.tool\.[us]$/),
    rewrite: (expected) => {
      for (const { output } of responsesOf(expected)) (output as Body[]).sort((a, b) => textOf(a) - textOf(b));
      if (expected.frames !== undefined) closeInOrder(expected);
    },
  },
  {
    authority: 'ruling 11',
    what: 'a published key that changes the answer and cannot be honoured is refused',
    applies: byId(/^rsp\.p\.conversation$/),
    rewrite: (expected) => {
      failWith(expected, 400, '`conversation` is not supported.');
      expected.worker = [];
    },
  },
  {
    authority: 'ruling 11',
    what: 'hosted tools are dropped with a warning',
    applies: byId(/^rsp\.p\.tools$/),
    rewrite: (expected) => {
      expected.status = 200;
      expected.body = anything;
    },
  },
];
