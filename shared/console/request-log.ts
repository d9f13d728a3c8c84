import type { Clock } from '../clock/index.ts';
import type { PipelineObserver } from '../pipeline/index.ts';
import { requestKeyOf } from '../protocol/index.ts';
import type { Hours } from './hours.ts';
import type { RequestFilter, RequestOutcomeName } from './request-filter.ts';
import { LogTrace, type RequestTrace, type TraceLog } from './request-trace.ts';
import { NOT_SHOWN, ShownTexts } from './shown-texts.ts';
import type { TokenPrices } from './token-cost.ts';
import { type RequestArrival, type RequestEnding, WatchedRequest } from './watched-request.ts';
import type { ConsoleRequestDetail, ConsoleRequests } from './wire/requests.ts';
import type { ConsoleWorkerDetail } from './wire/worker.ts';

/** Rows of one page, and of one event. */
export const PAGE_ROWS = 100;
/** A page of requests, the newest first; see `ConsoleRequests`. */
export interface RequestPage extends Omit<ConsoleRequests, 'requests'> {
  readonly requests: readonly WatchedRequest[];
}

/**
 * The requests of a frontend: all that run, and the last ones that have ended, in a ring. Only the end of a request
 * displaces another one, so that a busy frontend, too, shows how its requests end. It keeps no prompts and no answers
 * unless a setting asks for them.
 */
export class RequestLog {
  readonly #clock: Clock;
  readonly #hours: Hours;
  /** Requests under way by their number, the oldest first. */
  readonly #open = new Map<number, WatchedRequest>(); // bounded by the requests in flight
  readonly #ring: (WatchedRequest | undefined)[];
  #endings = 0;
  /** Requests under way by their own id, without the number of a prompt. */
  readonly #running = new Map<string, WatchedRequest>(); // bounded by the requests in flight
  /** Numbers of requests under way by model, as they were at `#countedVersion`. Only viewers have them counted. */
  #counts: ReadonlyMap<string, number> = new Map();
  #countedVersion = 0;
  #added = 0;
  #version = 0;
  readonly #traceLog: TraceLog = {
    named: (request, model) => {
      request.model = model;
      this.#changed(request);
    },
    identified: (request, id) => {
      request.identified(id, this.#clock.nowMs());
      this.#running.set(ownIdOf(id), request);
      this.#changed(request);
    },
    shown: ({ number }, asked, sink) => this.#texts?.take(number, asked, sink) ?? sink,
    ended: (request, ending) => this.#ended(request, ending),
  };
  /** Texts by the number of their request; undefined = none are kept. */
  readonly #texts: ShownTexts | undefined;
  readonly #prices: TokenPrices;

  /**
   * @param kept number of ended requests that the ring keeps: at least 1
   * @param showsPrompts whether prompts and answers are kept
   * @param prices of the tokens of models
   */
  constructor(clock: Clock, hours: Hours, kept: number, showsPrompts: boolean, prices: TokenPrices) {
    this.#clock = clock;
    this.#hours = hours;
    this.#ring = new Array<undefined>(kept).fill(undefined);
    this.#texts = showsPrompts ? new ShownTexts() : undefined;
    this.#prices = prices;
  }

  /** Grows with every change. */
  get version(): number {
    return this.#version;
  }

  /** Requests so far: the number of the next one. */
  get added(): number {
    return this.#added;
  }

  /** Returns the number of requests under way. @param model primary name; undefined = of all models */
  running(model?: string): number {
    if (model === undefined) return this.#open.size;
    if (this.#countedVersion !== this.#version) {
      this.#countedVersion = this.#version;
      this.#counts = countByModel(this.#open.values());
    }
    return this.#counts.get(model) ?? 0;
  }

  /** Follows a request that has just come. */
  began(arrival: RequestArrival): RequestTrace {
    const request = new WatchedRequest(this.#added++, arrival, this.#clock.nowMs(), this.#prices);
    this.#open.set(request.number, request);
    this.#changed(request);
    return new LogTrace(this.#traceLog, request);
  }

  /** Hears to which workers the requests go. */
  get observer(): Required<Pick<PipelineObserver, 'sent' | 'moved'>> {
    return {
      sent: (sent) => this.#at(sent.requestId, (request) => request.sent(sent, this.#clock.nowMs())),
      moved: (moved) => this.#at(moved.requestId, (request) => request.moved(moved, this.#clock.nowMs())),
    };
  }

  /** Returns a page of the requests that match, the newest first. @param before only requests with smaller numbers */
  page(filter: RequestFilter, before = Number.POSITIVE_INFINITY): RequestPage {
    const found = newest(this.#matching(filter, before), PAGE_ROWS + 1);
    const requests = found.slice(0, PAGE_ROWS);
    const next = found.length > PAGE_ROWS ? requests.at(-1)!.number : null;
    return { requests, next, kept: this.#ring.length, has_costs: this.#prices.size > 0 };
  }

  /** Returns the requests that match and have changed after `version`, in no order. */
  *changedSince(version: number, filter: RequestFilter): Generator<WatchedRequest> {
    for (const request of this.#all()) if (request.version > version && matches(request, filter)) yield request;
  }

  /**
   * Returns the newest request with this id that is remembered. @param id its number, its `x-request-id`, or an id of
   * its response
   */
  find(id: string): WatchedRequest | undefined {
    const number = /^\d{1,15}$/.test(id) ? Number(id) : undefined;
    const key = keyOf(id);
    let found: WatchedRequest | undefined;
    for (const request of this.#all()) {
      if (request.number === number) return request;
      const isNamed = request.xRequestId === id || (request.id !== undefined && keyOf(request.id) === key);
      if (isNamed && request.number > (found?.number ?? -1)) found = request;
    }
    return found;
  }

  /** Returns sums over the remembered requests that a worker has answered. */
  answeredBy(workerId: string): ConsoleWorkerDetail['requests'] {
    const sums = { count: 0, hits: 0, prompt_tokens: 0, cached_tokens: 0 };
    for (const request of this.#all()) {
      if (!request.hasEnded || request.worker !== workerId) continue;
      const { prompt_tokens: prompt, cached_tokens: cached } = request.row();
      sums.count++;
      sums.hits += (cached ?? 0) > 0 ? 1 : 0;
      sums.prompt_tokens += prompt ?? 0;
      sums.cached_tokens += cached ?? 0;
    }
    return sums;
  }

  /** Returns the texts of a request, or why there are none. */
  textOf({ number }: WatchedRequest): Pick<ConsoleRequestDetail, 'text' | 'no_text'> {
    return this.#texts === undefined ? { text: null, no_text: NOT_SHOWN } : this.#texts.of(number);
  }

  *#matching(filter: RequestFilter, before: number): Generator<WatchedRequest> {
    for (const request of this.#all()) if (request.number < before && matches(request, filter)) yield request;
  }

  *#all(): Generator<WatchedRequest> {
    yield* this.#open.values();
    for (const request of this.#ring) if (request !== undefined) yield request;
  }

  #ended(request: WatchedRequest, ending: RequestEnding): void {
    request.ended(ending);
    this.#open.delete(request.number);
    this.#ring[this.#endings++ % this.#ring.length] = request;
    if (request.id !== undefined) {
      const id = ownIdOf(request.id);
      if (this.#running.get(id) === request) this.#running.delete(id);
    }
    this.#changed(request);
    const { ttftMs, totalMs, outputTokens, promptTokens, cachedTokens } = ending;
    const hasGaps = ttftMs !== undefined && outputTokens !== undefined && outputTokens > 1;
    this.#hours.ended(request.model, {
      isFailed: ending.error !== undefined,
      promptTokens,
      cachedTokens,
      outputTokens,
      ttftMs,
      itlMs: hasGaps ? (totalMs - ttftMs) / (outputTokens - 1) : undefined,
    });
  }

  #at(requestId: string, change: (request: WatchedRequest) => void): void {
    const request = this.#running.get(ownIdOf(requestId));
    if (request === undefined) return;
    change(request);
    this.#changed(request);
  }

  #changed(request: WatchedRequest): void {
    request.version = ++this.#version;
  }
}

/** Returns the newest of these requests, the newest first. @param most number of them at most */
export function newest(requests: Iterable<WatchedRequest>, most: number): readonly WatchedRequest[] {
  let found: WatchedRequest[] = [];
  const sort = (): void => {
    found = found.sort((a, b) => b.number - a.number).slice(0, most);
  };
  for (const request of requests) {
    found.push(request);
    if (found.length >= 8 * most) sort(); // thousands may run: do not sort them all
  }
  sort();
  return found;
}

function countByModel(requests: Iterable<WatchedRequest>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { model } of requests) counts.set(model, (counts.get(model) ?? 0) + 1);
  return counts;
}

/** Length of a UUID without dashes: the first character behind it begins the number of a prompt. */
const UUID_LENGTH = 32;

/**
 * Returns the id of a request without the number of one of its prompts. It takes ids as the pipeline has them: a UUID,
 * perhaps with a number. Each event of a request passes here, so it is cheaper than `keyOf`.
 */
function ownIdOf(id: string): string {
  const end = id.indexOf('-', UUID_LENGTH);
  return end === -1 ? id : id.slice(0, end);
}

/** Returns the key that the id of a request shares with those of its prompts, if it has several. */
function keyOf(id: string): string {
  return requestKeyOf(id) ?? id;
}

function matches(request: WatchedRequest, { model, key, worker, outcome, id }: RequestFilter): boolean {
  if (model !== undefined && request.model !== model) return false;
  if (key !== undefined && request.key !== key) return false;
  if (worker !== undefined && request.worker !== worker) return false;
  if (outcome !== undefined && outcome !== outcomeOf(request)) return false;
  if (id === undefined) return true;
  return request.xRequestId.toLowerCase().includes(id) || request.id?.toLowerCase().includes(id) === true;
}

function outcomeOf(request: WatchedRequest): RequestOutcomeName {
  if (!request.hasEnded) return 'running';
  return request.isFailed ? 'failed' : 'succeeded';
}
