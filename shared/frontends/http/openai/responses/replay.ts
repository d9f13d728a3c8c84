import type { NamedLogprob, TokenLogprob } from '../../../../protocol/generation/index.ts';
import { jsonPieces, openSummary } from '../../../../protocol/openai/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import { ItemFrames } from './item-frames.ts';
import type { OutputItem } from './output-items.ts';
import type { FinalEvent } from './responses-unary.ts';

const FINAL_EVENTS: Readonly<Record<string, FinalEvent>> = {
  completed: 'response.completed',
  failed: 'response.failed',
};

/** What a response is told as before anything was said. */
const UNSAID = {
  status: 'in_progress',
  output: [],
  usage: null,
  completed_at: null,
  error: null,
  incomplete_details: null,
} as const;

/**
 * The events of a response that is complete, numbered as its stream numbered them: a client that lost the stream goes on
 * behind the last event that it has. Log probabilities stand in the events that close a text, not in its deltas.
 * Comes as pieces of text, of which no one is large.
 * @param after number of the last event that is left out; -1 for none
 */
export function* replayFrames(
  { response, pieces }: Pick<StoredResponse, 'response' | 'pieces'>,
  after: number,
): Generator<string> {
  const frames: Iterable<string>[] = [];
  let number = 0;
  const write = (frame: Iterable<string>): void => {
    if (number++ > after) frames.push(frame);
  };
  const items = new ItemFrames(
    (frame) => write([frame]),
    hasSummary(response),
    (lead, data, end) => write(eventPieces(lead, data, end)),
  );
  const tell = (type: string, told: JsonObject): void => write(eventPieces(items.responseHead(type), told, '}\n\n'));
  const unsaid = { ...response, ...UNSAID };
  tell('response.created', unsaid);
  tell('response.in_progress', unsaid);
  for (const [index, body] of (response.output as readonly JsonObject[]).entries()) {
    const item = itemOf(body, index);
    items.opened({ ...item, text: '', logprobs: [], status: 'in_progress' });
    yield* inOrder(frames.splice(0));
    for (const text of piecesOf(item.text, pieces?.[index])) {
      items.grew(item, text, undefined);
      yield* inOrder(frames.splice(0));
    }
    items.closed(item);
    yield* inOrder(frames.splice(0));
  }
  tell(FINAL_EVENTS[String(response.status)] ?? 'response.incomplete', response);
  yield* inOrder(frames);
}

function* eventPieces(lead: string, data: unknown, end: string): Generator<string> {
  yield lead;
  yield* jsonPieces(data);
  yield end;
}

function* inOrder(frames: readonly Iterable<string>[]): Generator<string> {
  for (const frame of frames) yield* frame;
}

function hasSummary({ reasoning }: JsonObject): boolean {
  return typeof reasoning === 'object' && reasoning !== null && (reasoning as JsonObject).summary != null;
}

/** The text as it was said; in one piece where nobody noted how. */
function* piecesOf(text: string, lengths: readonly number[] | undefined): Generator<string> {
  let from = 0;
  for (const length of lengths ?? []) {
    yield text.slice(from, from + length);
    from += length;
  }
  if (from < text.length) yield text.slice(from);
}

/** The item that `body` was written of (`itemBody`). */
function itemOf(body: JsonObject, index: number): OutputItem {
  const part = (body.content as readonly JsonObject[] | undefined)?.[0];
  return {
    kind: body.type as OutputItem['kind'],
    id: String(body.id),
    index,
    callId: String(body.call_id ?? ''),
    name: String(body.name ?? ''),
    namespace: body.namespace === undefined ? undefined : String(body.namespace),
    text: textOf(body, part),
    pieces: [],
    logprobs: Array.from((part?.logprobs ?? []) as Iterable<WrittenLogprob>, readLogprob),
    status: (body.status ?? 'completed') as OutputItem['status'],
  };
}

function textOf(body: JsonObject, part: JsonObject | undefined): string {
  switch (body.type) {
    case 'function_call':
      return String(body.arguments);
    case 'custom_tool_call':
      return String(body.input);
    case 'tool_search_call':
      return typeof body.arguments === 'string' ? body.arguments : JSON.stringify(body.arguments);
    case 'compaction':
      return openSummary(String(body.encrypted_content), 'encrypted_content');
    default:
      return String(part?.text ?? '');
  }
}

type WrittenLogprob = NamedLogprob & { readonly top_logprobs: TokenLogprob['top'] };

function readLogprob({ top_logprobs: top, ...token }: WrittenLogprob): TokenLogprob {
  return { ...token, top };
}
