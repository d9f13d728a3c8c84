import { reasonOf, ServeError } from '../../../../errors/index.ts';
import {
  type InputItem,
  type ParsedResponses,
  type ResponsesBody,
  responseIdOfItem,
  toListedItems,
} from '../../../../protocol/openai/index.ts';
import type { StoredResponse } from '../../../../responses/index.ts';
import { shownId } from '../../decode-path.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';

/** Owner of everything while no keys are asked for. */
export const ANYBODY = '';

/** Responses that the references of one request may lead to. */
const REFERENCED_MAX = 64;

/** Whether the answer to `body` is to be stored (`--response-store`; rulings.md, 8). */
export function isStored({ responseStore, settings }: HttpAppDeps, body: ResponsesBody): boolean {
  if (responseStore === undefined) return false;
  return settings.responseStore === 'on-request' ? body.store === true : body.store !== false;
}

/**
 * A stored response that its owner may see.
 * @throws ServeError `not_found`, or `service_unavailable` when the store cannot be asked.
 */
export async function findStored(deps: HttpAppDeps, id: string, signal: AbortSignal): Promise<StoredResponse> {
  const stored = await lookForStored(deps, id, signal);
  if (stored !== undefined) return stored;
  throw responseNotFound(id);
}

export function responseNotFound(id: string): ServeError {
  return new ServeError('not_found', `Response with id '${shownId(id)}' not found.`);
}

/**
 * What was said before `body`: all items of the response it follows, those of its own answer last.
 * @throws ServeError `previous_response_not_found`, `service_unavailable`.
 */
async function earlierItems(
  deps: HttpAppDeps,
  { previous_response_id: id }: ResponsesBody,
  signal: AbortSignal,
): Promise<readonly InputItem[]> {
  if (id == null) return [];
  const stored = await lookForStored(deps, id, signal);
  if (stored !== undefined) return itemsOf(stored);
  throw new ServeError('previous_response_not_found', `Previous response with id '${id}' not found.`, {
    param: 'previous_response_id',
  });
}

/**
 * Puts items in the place of references to them. References to ids that were not made here stay as they are, and say nothing
 * to the model (http-api.md, section 6.2).
 * @throws ServeError `not_found`, `invalid_value` for too many, `service_unavailable`.
 */
async function resolveReferences(
  deps: HttpAppDeps,
  items: readonly InputItem[],
  signal: AbortSignal,
): Promise<readonly InputItem[]> {
  const wanted = new Set<string>();
  for (const item of items) {
    const responseId = item.type === 'item_reference' ? responseIdOfItem(item.id) : undefined;
    if (responseId !== undefined) wanted.add(responseId);
  }
  if (wanted.size === 0) return items;
  if (wanted.size > REFERENCED_MAX) {
    throw new ServeError('invalid_value', `input refers to items of more than ${REFERENCED_MAX} responses`, {
      param: 'input',
    });
  }
  const found = await Promise.all([...wanted].map((id) => lookForStored(deps, id, signal)));
  const known = new Map(found.flatMap((stored) => (stored === undefined ? [] : itemsOf(stored))).map(byId));
  return items.map((item, at) => {
    if (item.type !== 'item_reference' || responseIdOfItem(item.id) === undefined) return item;
    const referenced = known.get(item.id);
    if (referenced !== undefined) return referenced;
    throw new ServeError('not_found', `Item with id '${item.id}' not found.`, { param: `input[${at}].id` });
  });
}

interface GatheredItems {
  /** What was said before the request. */
  readonly earlier: readonly InputItem[];
  /** The request's own, references replaced by what they stand for. */
  readonly own: readonly InputItem[];
}

/** Everything that a request's prompt is made of. @throws ServeError as `earlierItems` and `resolveReferences` */
export async function gatherItems(
  deps: HttpAppDeps,
  { sink }: HttpExchange,
  { body, items }: ParsedResponses,
): Promise<GatheredItems> {
  const [earlier, own] = await Promise.all([
    earlierItems(deps, body, sink.closed),
    resolveReferences(deps, items, sink.closed),
  ]);
  return { earlier, own };
}

/** What is kept of a request until its answer is complete. */
export interface KeptInput {
  readonly id: string;
  /** Everything that went into the prompt. */
  readonly items: readonly InputItem[];
}

/** Stores an answer. False when that failed, which costs the client the answer's name and nothing else. */
export async function keep(
  deps: HttpAppDeps,
  { id, items }: KeptInput,
  answer: Pick<StoredResponse, 'response' | 'pieces'>,
): Promise<boolean> {
  try {
    await deps.responseStore?.put({ id, owner: ANYBODY, input: toListedItems(items, id), ...answer });
    return true;
  } catch (thrown) {
    deps.logger.warn('response could not be stored', { response_id: id, reason: reasonOf(thrown) });
    return false;
  }
}

/** A stored response that its owner may see. Rejects with a ServeError when the store cannot be asked. */
export async function lookForStored(
  deps: HttpAppDeps,
  id: string,
  signal: AbortSignal,
): Promise<StoredResponse | undefined> {
  try {
    return await deps.responseStore?.get(id, ANYBODY, signal);
  } catch (cause) {
    throw storeFailure(deps, id, cause, signal);
  }
}

/** What a failed look into the store means to the request that needed it. */
export function storeFailure({ logger }: HttpAppDeps, id: string, cause: unknown, signal: AbortSignal): ServeError {
  if (signal.aborted) return new ServeError('client_closed_request', 'client disconnected', { cause });
  logger.warn('response store cannot be reached', { response_id: id, reason: reasonOf(cause) });
  return new ServeError('service_unavailable', 'The response store cannot be reached', { cause, retryAfterMs: 1000 });
}

/**
 * Everything that a stored response knows: its input, then its answer. Both were checked when they were made. Of what a summary
 * took the place of, only the user's own words stay.
 */
function itemsOf({ input, response }: StoredResponse): readonly InputItem[] {
  const given = input as unknown as readonly InputItem[];
  const output = response.output as unknown as readonly InputItem[];
  const isCompacted = output.some(({ type }) => type === 'compaction');
  return [...(isCompacted ? given.filter(isUserMessage) : given), ...output];
}

/** What the user said: kept beside a summary. */
export function isUserMessage(item: InputItem): boolean {
  return item.type === 'message' && item.role === 'user';
}

function byId(item: InputItem): readonly [string, InputItem] {
  return [item.id ?? '', item];
}
