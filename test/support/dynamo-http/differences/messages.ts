import type { Difference, Expectation } from '../expectation.ts';
import { type Body, isMessages, requestBody, tokensOf } from '../fields.ts';
import type { RecordedRow } from '../records.ts';
import { cutCall, speaksFirst } from '../script-text.ts';
import { promptOf, succeed } from '../usual-answer.ts';

type MessageFrame = { event?: string; data?: Body };

const framesOf = (expected: Expectation): MessageFrame[] => (expected.frames ?? []) as MessageFrame[];
const contentOf = (expected: Expectation): Body[] => (expected.body as { content?: Body[] } | undefined)?.content ?? [];

/** Collects every `usage` object of the answer. */
function usagesOf(expected: Expectation): Body[] {
  const holders = framesOf(expected).flatMap(({ data }) => [data, data?.message as Body | undefined]);
  return [expected.body as Body | undefined, ...holders]
    .map((holder) => holder?.usage as Body | undefined)
    .filter((usage) => usage !== undefined);
}

/** Whether a request names a picture by its address, which 1.6.1 does not read. */
function namesPicture(row: RecordedRow): boolean {
  return /"source":\{"type":"url"/.test(JSON.stringify(requestBody(row).messages ?? null));
}

/** Differences of Anthropic's dialect from the record. They apply after the failures. */
export const MESSAGES: readonly Difference[] = [
  {
    why: 'count_tokens uses the real tokenizer and template; 1.6.1 guesses by length',
    applies: (row) => row.request.path.endsWith('/count_tokens') && row.status === 200,
    rewrite: (expected, row) => {
      const prompt = String(promptOf(row, requestBody(row)));
      expected.body = { input_tokens: tokensOf(prompt) };
    },
  },
  {
    why: 'pictures may be given by URL',
    applies: (row) => isMessages(row) && row.status === 400 && namesPicture(row),
    rewrite: succeed,
  },
  {
    why: 'blocks follow the order of generation',
    applies: (row, expected) => isMessages(row) && speaksFirst(row) && contentOf(expected).length > 1,
    rewrite: (expected) => {
      const blocks = contentOf(expected);
      blocks.push(...blocks.splice(0, blocks.length).toSorted((a, b) => orderOf(a) - orderOf(b)));
    },
  },
  {
    why: 'a call in which the text ended is not repaired: it has its arguments so far, unchanged',
    applies: (row, expected) => isMessages(row) && cutCall(row) !== undefined && expected.status === 200,
    rewrite: (expected, row) => {
      const soFar = cutCall(row);
      const call = contentOf(expected).findLast(({ type }) => type === 'tool_use');
      if (call !== undefined) call.input = { INVALID_JSON: soFar };
      for (const { data } of framesOf(expected)) {
        const delta = data?.delta as Body | undefined;
        if (delta?.type === 'input_json_delta') delta.partial_json = soFar;
      }
    },
  },
  {
    why: 'a thought has the same signature in a message as in a stream, because clients drop thoughts that have none',
    applies: (row, expected) => isMessages(row) && contentOf(expected).some(({ type }) => type === 'thinking'),
    rewrite: (expected) => {
      for (const block of contentOf(expected)) if (block.type === 'thinking') block.signature = 'erased';
    },
  },
  {
    why: 'usage always counts the tokens read from the cache, and deltas have no such count, as published',
    applies: (row, expected) => isMessages(row) && usagesOf(expected).length > 0,
    rewrite: (expected) => {
      for (const usage of usagesOf(expected)) usage.cache_read_input_tokens ??= 0;
      for (const { data } of framesOf(expected)) if (data?.type === 'content_block_delta') delete data.usage;
    },
  },
  {
    why: 'a stream reports the true length of the prompt at its start, then pings, and names the stop sequence at its end',
    applies: (row, expected) => isMessages(row) && framesOf(expected)[0]?.event === 'message_start',
    rewrite: (expected, row) => {
      const frames = framesOf(expected);
      const started = frames[0]?.data?.message as { usage: Body };
      started.usage.input_tokens = tokensOf(String(row.worker_request?.[0]?.prompt));
      frames.splice(1, 0, { event: 'ping', data: { type: 'ping' } });
      for (const { data } of frames) {
        if (data?.type === 'message_delta') (data.delta as Body).stop_sequence ??= null;
      }
    },
  },
  {
    why: 'a stream ends with message_stop, or with its error',
    applies: (row, expected) => isMessages(row) && (framesOf(expected).at(-1)?.data as unknown) === '[DONE]',
    rewrite: (expected) => {
      expected.frames?.pop();
    },
  },
  {
    why: 'models are sorted by name; their order is not part of the record',
    applies: (_row, expected) => 'first_id' in ((expected.body ?? {}) as Body),
    rewrite: (expected) => {
      const body = expected.body as { data: Body[]; first_id?: unknown; last_id?: unknown };
      body.data.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
      body.first_id = body.data[0]?.id;
      body.last_id = body.data.at(-1)?.id;
    },
  },
];

/** Order of blocks: thinking first, then text, then calls. */
const orderOf = ({ type }: Body): number => ['thinking', 'text', 'tool_use'].indexOf(String(type));
