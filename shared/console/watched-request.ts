import type { RequestObserver } from '../pipeline/index.ts';
import { costOfTokens, type TokenPrices } from './token-cost.ts';
import type { ConsoleRequest, ConsoleRequestDetail } from './wire/requests.ts';

/** Attempts and moves of one request that are kept; a request moves a few times at most. */
const STEPS_MAX = 16;

type Sent = Parameters<RequestObserver['sent']>[0];
type Moved = Parameters<RequestObserver['moved']>[0];
const NONE: readonly never[] = [];

type Stage = ConsoleRequestDetail['stages'][number];

/** Facts that are known when a request comes. */
export interface RequestArrival {
  readonly endpoint: string;
  readonly xRequestId: string;
  /** Name of the API key; undefined without a key. */
  readonly key: string | undefined;
  /** Unix time in milliseconds. */
  readonly receivedMs: number;
}

/** Facts that are known when a request has ended. Times in milliseconds since it came. */
export interface RequestEnding {
  readonly status: number;
  /** Label of the failure, as metrics have it; undefined for a success. */
  readonly error: string | undefined;
  readonly worker: string | undefined;
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly ttftMs: number | undefined;
  readonly totalMs: number;
}

/** One request as the console shows it, without the text of prompts and answers. */
export class WatchedRequest {
  readonly number: number;
  /** Grows with every change of any request. */
  version: number;
  id: string | undefined;
  model: string;
  readonly #arrival: RequestArrival;
  readonly #startedMs: number;
  readonly #prices: TokenPrices;
  #identifiedMs: number | undefined;
  #ending: RequestEnding | undefined;
  /** At most STEPS_MAX. Most requests have one: an array that grows by `push` would take the room of many. */
  #attempts: readonly { readonly atMs: number; readonly sent: Sent }[] = NONE;
  #moves: readonly { readonly atMs: number; readonly moved: Moved }[] = NONE; // at most STEPS_MAX

  /** @param startedMs time on the clock of the log */
  constructor(number: number, arrival: RequestArrival, startedMs: number, prices: TokenPrices) {
    this.number = number;
    this.version = 0;
    this.model = '';
    this.#arrival = arrival;
    this.#startedMs = startedMs;
    this.#prices = prices;
  }

  get hasEnded(): boolean {
    return this.#ending !== undefined;
  }

  get key(): string | undefined {
    return this.#arrival.key;
  }

  get xRequestId(): string {
    return this.#arrival.xRequestId;
  }

  get isFailed(): boolean {
    return this.#ending?.error !== undefined;
  }

  /** Worker that answers it, or answered last. */
  get worker(): string | undefined {
    return this.#ending?.worker ?? this.#attempts.at(-1)?.sent.workerId;
  }

  identified(id: string, nowMs: number): void {
    this.id = id;
    this.#identifiedMs = nowMs - this.#startedMs;
  }

  sent(sent: Sent, nowMs: number): void {
    if (this.#attempts.length >= STEPS_MAX) return;
    const attempt = { atMs: nowMs - this.#startedMs, sent };
    this.#attempts = this.#attempts.length === 0 ? [attempt] : [...this.#attempts, attempt];
  }

  moved(moved: Moved, nowMs: number): void {
    if (this.#moves.length >= STEPS_MAX) return;
    this.#moves = [...this.#moves, { atMs: nowMs - this.#startedMs, moved }];
  }

  ended(ending: RequestEnding): void {
    this.#ending = ending;
  }

  /** Returns the request as lists show it. */
  row(): ConsoleRequest {
    const { endpoint, xRequestId, key, receivedMs } = this.#arrival;
    const ending = this.#ending;
    const sent = this.#attempts.at(-1)?.sent;
    return {
      number: this.number,
      id: this.id ?? null,
      x_request_id: xRequestId,
      received_ms: receivedMs,
      endpoint,
      model: this.model,
      key: key ?? null,
      status: ending?.status ?? null,
      error: ending?.error ?? null,
      worker: this.worker ?? null,
      prompt_tokens: ending?.promptTokens ?? sent?.promptTokens ?? null,
      cached_tokens: ending?.cachedTokens ?? null,
      output_tokens: ending?.outputTokens ?? null,
      ttft_ms: ending?.ttftMs === undefined ? null : tenths(ending.ttftMs),
      total_ms: ending === undefined ? null : tenths(ending.totalMs),
      cost_usd: this.#cost(),
      moves: this.#moves.length,
    };
  }

  /** Returns what its tokens cost, in US$: null without their numbers, as before its end, or without a price. */
  #cost(): number | null {
    const price = this.#prices.get(this.model);
    const { promptTokens, cachedTokens = 0, outputTokens = 0 } = this.#ending ?? {};
    if (price === undefined || promptTokens === undefined) return null;
    return costOfTokens(price, { prompt: promptTokens, cached: cachedTokens, output: outputTokens });
  }

  /** Returns what happened to it, without the routing decision and without texts. */
  detail(): Pick<ConsoleRequestDetail, 'request' | 'stages' | 'attempts' | 'moves'> {
    return {
      request: this.row(),
      stages: this.#stages(),
      attempts: this.#attempts.map(({ atMs, sent }) => ({
        at_ms: tenths(atMs),
        worker: sent.workerId,
        prefill_worker: sent.prefillWorkerId ?? null,
        dp_rank: sent.dpRank ?? null,
        prompt_tokens: sent.promptTokens,
        cached_tokens: sent.cachedTokens,
      })),
      moves: this.#moves.map(({ atMs, moved }) => ({
        at_ms: tenths(atMs),
        from: moved.workerId ?? null,
        reason: moved.reason,
        output_tokens: moved.outputTokens,
      })),
    };
  }

  /** Returns its stages in order. The first token divides the attempt that it falls into. */
  #stages(): Stage[] {
    const endMs = this.#ending?.totalMs ?? null;
    const stages: Stage[] = [];
    const add = (name: Stage['name'], worker: string | null, fromMs: number, toMs: number | null): void => {
      stages.push({ name, worker, from_ms: tenths(fromMs), to_ms: toMs === null ? null : tenths(toMs) });
    };
    const identifiedMs = this.#identifiedMs;
    add('read', null, 0, identifiedMs ?? endMs);
    if (identifiedMs === undefined) return stages;
    add('route', null, identifiedMs, this.#attempts[0]?.atMs ?? endMs);
    const ttftMs = this.#ending?.ttftMs;
    for (const [at, { atMs, sent }] of this.#attempts.entries()) {
      const toMs = this.#attempts[at + 1]?.atMs ?? endMs;
      const isDivided = ttftMs !== undefined && ttftMs >= atMs && (toMs === null || ttftMs <= toMs);
      const isAnswering = ttftMs !== undefined && ttftMs < atMs;
      if (!isAnswering) add('prefill', sent.prefillWorkerId ?? sent.workerId, atMs, isDivided ? ttftMs : toMs);
      if (isAnswering || isDivided) add('decode', sent.workerId, isDivided ? ttftMs : atMs, toMs);
    }
    return stages;
  }
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
