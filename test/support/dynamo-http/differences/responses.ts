import { type Difference, type Expectation, refuseWith } from '../expectation.ts';
import { type Body, isResponses, requestBody } from '../fields.ts';
import type { RecordedRow } from '../records.ts';
import { speaksFirst } from '../script-text.ts';

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

const framesOf = (expected: Expectation): EventFrame[] => (expected.frames ?? []) as EventFrame[];

function eventsOf(expected: Expectation): ResponseEvent[] {
  return framesOf(expected)
    .map((frame) => frame.data)
    .filter((data): data is ResponseEvent => typeof data === 'object' && data !== null && 'sequence_number' in data);
}

/** Collects every response object of an answer, streamed or not. */
function responsesOf(expected: Expectation): Body[] {
  const body = expected.body as Body | undefined;
  const streamed = eventsOf(expected).flatMap(({ response }) => (response === undefined ? [] : [response]));
  return body?.object === 'response' ? [body, ...streamed] : streamed;
}

const orderOf = ({ type }: Body): number => ['reasoning', 'message', 'function_call'].indexOf(String(type));

/** Puts the last events of the message before the first of the call, and renumbers them. */
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

/** Keys of the published request that change the answer and that Stator cannot honour. */
const UNHONOURED = ['conversation'] as const;

/** Differences of the Responses API from the record. They apply after the failures. */
export const RESPONSES: readonly Difference[] = [
  {
    why: 'responses are stored unless the client says otherwise',
    applies: (row, expected) => responsesOf(expected).length > 0 && requestBody(row).store !== false,
    rewrite: (expected) => {
      for (const response of responsesOf(expected)) response.store = true;
    },
  },
  {
    why: 'the settings of reasoning have both published keys',
    applies: (_row, expected) => responsesOf(expected).some(({ reasoning }) => reasoning !== null),
    rewrite: (expected) => {
      for (const response of responsesOf(expected)) {
        response.reasoning = { effort: null, summary: null, ...(response.reasoning as object) };
      }
    },
  },
  {
    why: 'items follow the order of generation, and each closes before the next opens',
    applies: (row, expected) => isResponses(row) && speaksFirst(row) && responsesOf(expected).some(hasCall),
    rewrite: (expected) => {
      for (const { output } of responsesOf(expected)) (output as Body[]).sort((a, b) => orderOf(a) - orderOf(b));
      if (expected.frames !== undefined) closeInOrder(expected);
    },
  },
  {
    why: 'a published key that changes the answer and that we cannot honour is refused',
    applies: (row) => isResponses(row) && row.status === 200 && unhonoured(row) !== undefined,
    rewrite: (expected, row) => {
      const key = unhonoured(row);
      const message = `\`${key}\` is not supported.`;
      refuseWith(expected, row, { status: 400, message, code: 'unsupported_parameter', param: key });
    },
  },
];

function unhonoured(row: RecordedRow): string | undefined {
  return UNHONOURED.find((key) => requestBody(row)[key] != null);
}

const hasCall = ({ output }: Body): boolean => (output as Body[]).some(({ type }) => type === 'function_call');
