import { endOfTurn } from '../../../../concurrency/index.ts';
import { LIMITS, overLimit, reasonOf, ServeError } from '../../../../errors/index.ts';
import {
  type InputItem,
  jsonPieces,
  type ParsedResponses,
  type ResponsesBody,
  readItem,
  responseIdOfItem,
  storedIdOf,
  toListedItems,
} from '../../../../protocol/index.ts';
import { ResponseStoreError, type StoredResponse } from '../../../../responses/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange, ResponseMemory } from '../../exchange/exchange.ts';
import { shownId } from '../../route.ts';

const MEBIBYTE = 1024 * 1024;

const TURN_CHARS = 128 * 1024;

/** Records that one request reads at a time. Each may have megabytes, of which the request needs one item. */
const READ_AT_ONCE = 4;

/** Returns whether to store the response to `body` (`--response-store`). */
export function isStored({ responseStore, settings }: HttpAppDeps, body: ResponsesBody): boolean {
  if (responseStore === undefined) return false;
  return settings.responseStore === 'on-request' ? body.store === true : body.store !== false;
}

/**
 * Returns a stored response if its owner asks for it.
 * @throws ServeError `not_found`, or `service_unavailable` if the store does not answer.
 */
export async function findStored(deps: HttpAppDeps, id: string, asker: Asker): Promise<StoredResponse> {
  const stored = await lookForStored(deps, id, asker);
  if (stored !== undefined) return stored;
  throw responseNotFound(id);
}

export function responseNotFound(id: string): ServeError {
  return new ServeError('not_found', `Response with id '${shownId(id)}' not found.`);
}

/**
 * Returns all items of the response that `body` follows, those of its own output last.
 * @throws ServeError `previous_response_not_found`, `service_unavailable`.
 */
async function earlierItems(
  deps: HttpAppDeps,
  { previous_response_id: id }: ResponsesBody,
  asker: Asker,
): Promise<readonly InputItem[]> {
  if (id == null) return [];
  const stored = await lookForStored(deps, id, asker);
  if (stored !== undefined) return itemsOf(stored);
  throw previousNotFound(id);
}

/** Returns the refusal of a request that follows an unknown response. */
export function previousNotFound(id: string): ServeError {
  return new ServeError('previous_response_not_found', `Previous response with id '${id}' not found.`, {
    param: 'previous_response_id',
  });
}

/**
 * Replaces references to items by the items. A reference stays as it is if this deployment did not make the id or has
 * forgotten it; the model then gets nothing for it. A forgotten reference at the end is an error, because it is the
 * question.
 * @throws ServeError `not_found`, `invalid_value` for too many, `service_unavailable`.
 */
async function resolveReferences(
  deps: HttpAppDeps,
  items: readonly InputItem[],
  resolved: ResolvedBytes,
  asker: Asker,
): Promise<readonly InputItem[]> {
  const wanted = new Set<string>();
  for (const item of items) {
    const responseId = item.type === 'item_reference' ? responseIdOfItem(item.id) : undefined;
    if (responseId !== undefined) wanted.add(responseId);
  }
  if (wanted.size === 0) return items;
  if (wanted.size > LIMITS.references.max) {
    const message = `input refers to items of more than ${LIMITS.references.max} responses`;
    throw overLimit('references', message, { param: 'input' });
  }
  const known = await referencedItems(deps, [...wanted], items, resolved, asker);
  return items.map((item, at) => {
    if (item.type !== 'item_reference' || responseIdOfItem(item.id) === undefined) return item;
    const referenced = known.get(item.id);
    if (referenced !== undefined) {
      resolved.add(referenced, `input[${at}].id`);
      return referenced;
    }
    if (at < items.length - 1) return item; // forgotten: the history goes on without it, and `decode` reports that
    throw new ServeError('not_found', `Item with id '${item.id}' not found.`, { param: `input[${at}].id` });
  });
}

/** Returns the items that references name, by id. It reads them from the responses that the ids name. */
async function referencedItems(
  deps: HttpAppDeps,
  responseIds: readonly string[],
  items: readonly InputItem[],
  resolved: ResolvedBytes,
  asker: Asker,
): Promise<ReadonlyMap<string, InputItem>> {
  const wanted = new Set(items.flatMap((item) => (item.type === 'item_reference' ? [item.id] : [])));
  const known = new Map<string, InputItem>();
  for (let at = 0; at < responseIds.length; at += READ_AT_ONCE) {
    const batch = responseIds.slice(at, at + READ_AT_ONCE);
    const found = await Promise.all(batch.map((id) => lookForStored(deps, id, asker)));
    for (const stored of found) {
      for (const item of stored === undefined ? [] : itemsOf(stored)) {
        if (typeof item.id !== 'string' || !wanted.has(item.id)) continue;
        known.set(item.id, item);
        await resolved.measure([item]);
        resolved.require(item, 'input');
      }
    }
  }
  return known;
}

interface GatheredItems {
  /** Items of the conversation before the request. */
  readonly earlier: readonly InputItem[];
  /** Items of the request itself, with references replaced. */
  readonly own: readonly InputItem[];
}

/**
 * Returns every item that a request's prompt is made of.
 * @throws ServeError as `earlierItems` and `resolveReferences`
 */
export async function gatherItems(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  { body, items }: ParsedResponses,
): Promise<GatheredItems> {
  const resolved = new ResolvedBytes(deps.settings.bodyLimitBytes);
  const earlier = await earlierItems(deps, body, exchange);
  await resolved.measure(earlier);
  for (const item of earlier) resolved.add(item, 'previous_response_id');
  const own = await resolveReferences(deps, items, resolved, exchange);
  if (earlier.length > 0) requireCalls(earlier, own);
  return { earlier, own };
}

/**
 * Checks that results in a followed conversation answer calls in it, because this server has the whole conversation. A
 * conversation that the client sends itself stays unchecked.
 * @throws ServeError `invalid_value`
 */
function requireCalls(earlier: readonly InputItem[], own: readonly InputItem[]): void {
  const results = own.flatMap((item) => (isResult(item) && item.call_id ? [item.call_id] : []));
  if (results.length === 0) return;
  const called = new Set([...earlier, ...own].flatMap((item) => (isResult(item) ? [] : callIds(item))));
  const stray = results.find((id) => !called.has(id));
  if (stray === undefined) return;
  const message = `No tool call found for the output with call_id ${JSON.stringify(stray).slice(0, 100)}`;
  throw new ServeError('invalid_value', message, { param: 'input' });
}

function isResult(
  item: InputItem,
): item is Extract<InputItem, { type: 'function_call_output' | 'custom_tool_call_output' }> {
  return item.type === 'function_call_output' || item.type === 'custom_tool_call_output';
}

/** Returns the ids under which a result may name the item. */
function callIds(item: InputItem): readonly unknown[] {
  const { call_id, id } = (item.type === 'foreign' ? item.item : item) as { call_id?: unknown; id?: unknown };
  return [call_id, id];
}

/** The data of a request that is kept until its response is complete. */
export interface KeptInput {
  readonly id: string;
  readonly owner: string;
  /** Every item that went into the prompt. */
  readonly items: readonly InputItem[];
  /**
   * Memory that keeps the response instead of the store. A client may follow a response on its connection even if the
   * client did not want it stored.
   */
  readonly memory?: ResponseMemory | undefined;
}

/** Stores a response. Returns false if that failed; then the client can no longer refer to the response. */
export async function keep(
  deps: HttpAppDeps,
  { id, owner, items, memory }: KeptInput,
  recorded: Pick<StoredResponse, 'response' | 'pieces'>,
): Promise<boolean> {
  const whole = { id, owner, input: toListedItems(items, id), ...recorded };
  try {
    await (memory ?? deps.responseStore)?.put(whole);
    return true;
  } catch (thrown) {
    if (thrown instanceof ResponseStoreError && thrown.code === 'too_large')
      deps.metrics.limitReached('stored_response_bytes');
    deps.logger.warn('response could not be stored', { response_id: id, reason: reasonOf(thrown) });
    return false;
  }
}

/** The client that asks for a stored response, and how long it waits. */
type Asker = Pick<HttpExchange, 'grant' | 'sink' | 'memory'>;

/**
 * Returns a stored response that the asker may see, by any of its ids. Rejects with a ServeError if the store does not
 * answer.
 */
export async function lookForStored(
  deps: HttpAppDeps,
  id: string,
  { grant, sink: { closed: signal }, memory }: Asker,
): Promise<StoredResponse | undefined> {
  const remembered = await memory?.get(storedIdOf(id));
  if (remembered !== undefined) return remembered;
  try {
    return await deps.responseStore?.get(storedIdOf(id), grant.owner, signal);
  } catch (cause) {
    throw storeFailure(deps, id, cause, signal);
  }
}

/** Returns the error of a request that needed the store and could not read it. */
export function storeFailure({ logger }: HttpAppDeps, id: string, cause: unknown, signal: AbortSignal): ServeError {
  if (signal.aborted) return new ServeError('client_closed_request', 'client disconnected', { cause });
  logger.warn('response store cannot be reached', { response_id: id, reason: reasonOf(cause) });
  return new ServeError('service_unavailable', 'The response store cannot be reached', { cause, retryAfterMs: 1000 });
}

/**
 * Returns the input of a stored response, then its output. Both were checked when they were made. If a summary replaced
 * the conversation, only the user's messages stay of the input.
 */
function itemsOf({ input, response }: StoredResponse): readonly InputItem[] {
  const given = (input as readonly Readonly<Record<string, unknown>>[]).map(readItem);
  const output = response.output as unknown as readonly InputItem[];
  const isCompacted = output.some(({ type }) => type === 'compaction');
  return [...(isCompacted ? given.filter(isUserMessage) : given), ...output];
}

/** Returns whether an item is a message of the user, which stays beside a summary. */
export function isUserMessage(item: InputItem): boolean {
  return item.type === 'message' && item.role === 'user';
}

/**
 * Counts the bytes that a request refers to without sending them: each item as often as an id names it. Without a
 * bound, a few kilobytes of references to one long item would become a prompt of any size.
 */
class ResolvedBytes {
  readonly #limitBytes: number;
  readonly #sizes = new Map<InputItem, number>();
  #bytes = 0;

  /** @param limitBytes bytes of the largest body: a client may not refer to more than it may send */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Measures items, in several turns of the event loop if they are large. */
  async measure(items: Iterable<InputItem>): Promise<void> {
    let chars = 0;
    for (const item of items) {
      let size = 0;
      for (const text of jsonPieces(item)) {
        size += Buffer.byteLength(text);
        chars += text.length;
        if (chars < TURN_CHARS) continue;
        chars = 0;
        await endOfTurn();
      }
      this.#sizes.set(item, size);
    }
  }

  /**
   * Counts one more item, which was measured.
   * @param param field that names the item
   * @throws ServeError `request_too_large`
   */
  add(item: InputItem, param: string): void {
    this.#bytes += this.#sizes.get(item) ?? 0;
    if (this.#bytes > this.#limitBytes) throw this.#tooLarge(param);
  }

  /** Checks that an item fits that will be added at least once. @throws as `add` */
  require(item: InputItem, param: string): void {
    if (this.#bytes + (this.#sizes.get(item) ?? 0) > this.#limitBytes) throw this.#tooLarge(param);
  }

  #tooLarge(param: string): Error {
    const limitMb = this.#limitBytes / MEBIBYTE;
    const message = `What the request refers to exceeds the limit of ${limitMb} MB set by DYN_HTTP_BODY_LIMIT_MB`;
    return overLimit('resolved_bytes', message, { param });
  }
}
