import { invariant } from '../../errors/index.ts';
import { roomy } from '../../records/index.ts';
import type { RankWeight } from '../types.ts';
import { BlockUses } from './block-uses.ts';
import type { DecodeSpan } from './rank-speeds.ts';

export interface ActiveLoadOptions {
  readonly blockSizeTokens: number;
  /** Age at which a request counts as lost. */
  readonly expiryMs: number;
}

/** A request to book. */
export interface LoadEntry {
  readonly id: string;
  readonly rank: number;
  readonly promptTokens: number;
  /** Pairs of sequence hashes of the prompt's complete blocks; undefined = the request's blocks do not count. */
  readonly hashes: Uint32Array | undefined;
  /** Whether blocks may be shared with other requests of the rank; otherwise each request has its own. */
  readonly isReusing: boolean;
  /** Prompt tokens to compute; 0 = not tracked. */
  readonly prefillTokens: number;
  /** Predicted length of the prefill; undefined = unknown. */
  readonly prefillMs?: number | undefined;
  readonly expectedOutputTokens?: number | undefined;
}

/** End of a prefill: the request gave its first token. */
export interface PrefillEnd {
  readonly tokens: number;
  /** Time since the prefill became the oldest of its rank; undefined if it was not the oldest. */
  readonly elapsedMs: number | undefined;
  readonly rank: number;
  /** Time since the request was booked. */
  readonly sinceStartMs: number;
}

/**
 * The load of the running requests on each rank. Arrays are by rank number, so that the costs of hundreds of ranks are
 * computed without touching an object.
 */
export class ActiveLoad {
  readonly uses = new BlockUses(0);
  /** Distinct blocks of the rank's requests, rounded if output decays. */
  activeBlocks = new Float64Array(0);
  /** Tokens of the rank's prefills, without decay. */
  prefillSum = new Float64Array(0);
  /** Tokens of the rank's oldest prefill, 0 = none. */
  oldestTokens = new Float64Array(0);
  /** Instant at which that prefill became the oldest. */
  oldestSinceMs = new Float64Array(0);
  prefills = new Float64Array(0);
  requests = new Float64Array(0);
  /** Prompt tokens of the rank's requests, shared ones counted for each. */
  contextTokens = new Float64Array(0);
  /** Prompt tokens of all prefills that have ended on the rank. */
  prefilledTokens = new Float64Array(0);
  #oldestMs = new Float64Array(0);
  #unpredicted = new Float64Array(0); // prefills without a predicted length
  #blocks = new Float64Array(0);
  #discounts = new Float64Array(0); // by which expected ends lower the weight of those blocks
  #unattributedBlocks = new Float64Array(0);
  readonly #unattributed: (RankWeight | undefined)[] = [];
  readonly #newest: (ActiveRequest | undefined)[] = [];
  readonly #byId = new Map<string, ActiveRequest>(); // bounded by expiry; in the order of their start
  readonly #blockSizeTokens: number;
  readonly #expiryMs: number;
  #hasPredictions = false;

  /** @param capacity largest rank number plus one, see `reserve` */
  constructor(capacity: number, { blockSizeTokens, expiryMs }: ActiveLoadOptions) {
    this.#blockSizeTokens = blockSizeTokens;
    this.#expiryMs = expiryMs;
    this.reserve(capacity);
  }

  /** Makes room for rank numbers below `capacity`. */
  reserve(capacity: number): void {
    this.uses.reserve(capacity);
    this.activeBlocks = roomy(this.activeBlocks, capacity);
    this.prefillSum = roomy(this.prefillSum, capacity);
    this.oldestTokens = roomy(this.oldestTokens, capacity);
    this.oldestSinceMs = roomy(this.oldestSinceMs, capacity);
    this.prefills = roomy(this.prefills, capacity);
    this.requests = roomy(this.requests, capacity);
    this.contextTokens = roomy(this.contextTokens, capacity);
    this.prefilledTokens = roomy(this.prefilledTokens, capacity);
    this.#oldestMs = roomy(this.#oldestMs, capacity);
    this.#unpredicted = roomy(this.#unpredicted, capacity);
    this.#blocks = roomy(this.#blocks, capacity);
    this.#discounts = roomy(this.#discounts, capacity);
    this.#unattributedBlocks = roomy(this.#unattributedBlocks, capacity);
  }

  /** Number of running requests on all ranks. */
  get size(): number {
    return this.#byId.size;
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  /** Whether a request is booked on that rank, and its first token has not come. False for unknown ids. */
  isPrefilling({ id, rank }: Pick<LoadEntry, 'id' | 'rank'>): boolean {
    const request = this.#byId.get(id);
    return request !== undefined && request.rank === rank && request.prefillTokens > 0;
  }

  /** Returns the rank of a running request. */
  rankOf(id: string): number | undefined {
    return this.#byId.get(id)?.rank;
  }

  /** Whether prefill load changes with time; otherwise `prefillSum` is the load. */
  get decays(): boolean {
    return this.#hasPredictions;
  }

  /** Books a request. Returns false, and changes nothing, if one of that id is booked. */
  add(entry: LoadEntry, nowMs: number): boolean {
    if (this.#byId.has(entry.id)) return false;
    const { rank } = entry;
    const request = new ActiveRequest(entry, nowMs);
    invariant(rank >= 0 && rank < this.requests.length, 'a request is booked on a rank that has its place');
    this.#byId.set(entry.id, request);
    this.requests[rank]!++;
    this.contextTokens[rank]! += request.promptTokens;
    if (entry.hashes !== undefined) this.#addBlocks(request, entry.hashes, entry);
    request.blocksSeen = Math.ceil(entry.promptTokens / this.#blockSizeTokens);
    if (request.prefillTokens > 0) this.#addPrefill(request, nowMs);
    return true;
  }

  /**
   * Records the first token of a request. Returns undefined if the request is unknown, or its prefill was over or not
   * tracked.
   */
  prefillDone(id: string, nowMs: number): PrefillEnd | undefined {
    const request = this.#byId.get(id);
    if (request === undefined || request.prefillTokens === 0) return undefined;
    const end = this.#endPrefill(request, nowMs);
    request.firstTokenMs = nowMs;
    request.contextAtFirst = this.contextTokens[request.rank] as number;
    request.prefilledAtFirst = this.prefilledTokens[request.rank] as number;
    return end;
  }

  /** Returns the time for which a request has decoded; undefined if its first token is not known. */
  decodeSpanOf(id: string, nowMs: number): DecodeSpan | undefined {
    const request = this.#byId.get(id);
    if (request === undefined || Number.isNaN(request.firstTokenMs)) return undefined;
    const { rank } = request;
    return {
      rank,
      elapsedMs: nowMs - request.firstTokenMs,
      prefilledTokens: (this.prefilledTokens[rank] as number) - request.prefilledAtFirst,
      contextTokens: (request.contextAtFirst + (this.contextTokens[rank] as number)) / 2,
      sinceStartMs: nowMs - request.startMs,
    };
  }

  /**
   * Records the output tokens so far. Adds a block if they fill one. The closer the expected end is, the less the
   * blocks of only this request weigh.
   */
  produced(id: string, outputTokens: number): void {
    const request = this.#byId.get(id);
    if (request === undefined || !request.hasBlocks) return;
    const blocks = Math.ceil((request.promptTokens + outputTokens) / this.#blockSizeTokens);
    if (blocks <= request.blocksSeen) return;
    const expected = request.expectedOutputTokens;
    const fraction = expected === undefined ? undefined : Math.max(0, 1 - outputTokens / Math.max(expected, 1));
    this.#growBlocks(request, blocks, fraction);
  }

  /**
   * Adds one block of output for a caller that counts blocks itself. `fraction` is from now on the weight of every
   * block that only this request uses. Returns false if the request is unknown.
   */
  addOutputBlock(id: string, fraction: number | undefined): boolean {
    const request = this.#byId.get(id);
    if (request === undefined) return false;
    if (request.hasBlocks) this.#growBlocks(request, request.blocksSeen + 1, fraction);
    return true;
  }

  /** Ends a request in any phase. Returns false if it is unknown. */
  free(id: string, nowMs: number): boolean {
    const request = this.#byId.get(id);
    if (request === undefined) return false;
    this.#byId.delete(id);
    const { rank } = request;
    this.requests[rank]!--;
    this.contextTokens[rank]! -= request.promptTokens;
    if (request.prefillTokens > 0) this.#endPrefill(request, nowMs);
    if (request.hasBlocks) this.#removeBlocks(request);
    return true;
  }

  /** Ends a request that has not been sent to its worker, so that none of its prefill counts as computed. */
  takeBack(id: string, nowMs: number): void {
    const request = this.#byId.get(id);
    if (request === undefined) return;
    this.prefilledTokens[request.rank]! -= request.prefillTokens;
    this.free(id, nowMs);
  }

  /** Returns the load of a rank by bookings. */
  booked(rank: number): RankWeight {
    const { requests = 0, prefillTokens = 0 } = this.#unattributed[rank] ?? {};
    return {
      requests: (this.requests[rank] as number) - requests,
      decodeBlocks: (this.activeBlocks[rank] as number) - (this.#unattributedBlocks[rank] as number),
      prefillTokens: (this.prefillSum[rank] as number) - prefillTokens,
    };
  }

  /** Sets the load of a rank beyond its bookings. Replaces the earlier value. */
  setUnattributed(rank: number, load: RankWeight | undefined): void {
    const before = this.#unattributed[rank];
    this.#unattributed[rank] = load;
    this.requests[rank]! += (load?.requests ?? 0) - (before?.requests ?? 0);
    this.prefillSum[rank]! += (load?.prefillTokens ?? 0) - (before?.prefillTokens ?? 0);
    this.contextTokens[rank]! += ((load?.decodeBlocks ?? 0) - (before?.decodeBlocks ?? 0)) * this.#blockSizeTokens;
    this.#unattributedBlocks[rank] = Math.round(load?.decodeBlocks ?? 0);
    this.#roundBlocks(rank);
  }

  /** Ends every request of a rank that is gone. */
  freeRank(rank: number, nowMs: number): void {
    if (this.#unattributed[rank] !== undefined) this.setUnattributed(rank, undefined);
    if (this.requests[rank] === 0) return;
    for (const request of this.#byId.values()) if (request.rank === rank) this.free(request.id, nowMs);
  }

  /** Ends requests that were never freed. Returns their ids. */
  expire(nowMs: number): readonly string[] {
    const lost: string[] = [];
    for (const request of this.#byId.values()) {
      if (nowMs - request.startMs < this.#expiryMs) break; // the others started later
      lost.push(request.id);
    }
    for (const id of lost) this.free(id, nowMs);
    return lost;
  }

  /** Returns the tokens that the rank's prefills still have to compute, as far as known. */
  prefillTokensAt(rank: number, nowMs: number): number {
    const sum = this.prefillSum[rank] as number;
    if (!this.#hasPredictions || this.prefills[rank] === 0) return sum;
    const tokens = this.oldestTokens[rank] as number;
    const elapsedMs = nowMs - (this.oldestSinceMs[rank] as number);
    const expectedMs = this.#oldestMs[rank] as number;
    const unattributedTokens = this.#unattributed[rank]?.prefillTokens ?? 0; // their length is not predicted
    const isPredicted = this.#unpredicted[rank] === 0 && unattributedTokens === 0;
    if (isPredicted) return spilledRemainder(sum, tokens, elapsedMs, expectedMs);
    return sum - tokens + anchoredRemainder(tokens, elapsedMs, expectedMs);
  }

  #addBlocks(request: ActiveRequest, hashes: Uint32Array, { isReusing }: LoadEntry): void {
    const { rank } = request;
    request.hasBlocks = true;
    if (isReusing) {
      request.lastUse = this.uses.acquire(rank, hashes);
      this.#blocks[rank]! += this.uses.added;
    } else {
      request.ownBlocks = hashes.length >> 1; // counted as if each had a hash of its own: no request shares them
      this.#blocks[rank]! += request.ownBlocks;
    }
    this.#roundBlocks(rank);
  }

  /** Adds one block, the last of `blocksSeen`. */
  #growBlocks(request: ActiveRequest, blocksSeen: number, fraction: number | undefined): void {
    request.blocksSeen = blocksSeen;
    request.ownBlocks++;
    this.#blocks[request.rank]!++;
    if (fraction !== undefined) this.#lighten(request, fraction);
    this.#roundBlocks(request.rank);
  }

  #removeBlocks(request: ActiveRequest): void {
    const { rank } = request;
    this.#blocks[rank]! -= request.ownBlocks;
    this.#discounts[rank]! -= request.ownDiscount;
    if (request.lastUse !== -1) {
      this.#blocks[rank]! -= this.uses.release(request.lastUse);
      this.#discounts[rank]! -= this.uses.releasedDiscount;
    }
    invariant((this.#blocks[rank] as number) >= 0, 'requests take no more blocks off a rank than they brought');
    if (this.#blocks[rank] === 0) this.#discounts[rank] = 0; // rounding may have left a rest
    this.#roundBlocks(rank);
  }

  /** Gives every block that only this request uses the weight `fraction`. */
  #lighten(request: ActiveRequest, fraction: number): void {
    const ownDiscount = request.ownBlocks * (1 - fraction);
    this.#discounts[request.rank]! += ownDiscount - request.ownDiscount;
    request.ownDiscount = ownDiscount;
    if (request.lastUse !== -1) {
      this.#discounts[request.rank]! += this.uses.lightenTail(request.lastUse, 1 - fraction);
    }
  }

  #roundBlocks(rank: number): void {
    const weight = (this.#blocks[rank] as number) - (this.#discounts[rank] as number);
    this.activeBlocks[rank] = Math.max(0, Math.round(weight)) + (this.#unattributedBlocks[rank] as number);
  }

  #addPrefill(request: ActiveRequest, nowMs: number): void {
    const { rank } = request;
    this.prefillSum[rank]! += request.prefillTokens;
    this.prefills[rank]!++;
    if (Number.isNaN(request.prefillMs)) this.#unpredicted[rank]!++;
    else this.#hasPredictions = true;
    const newest = this.#newest[rank];
    request.older = newest;
    this.#newest[rank] = request;
    if (newest === undefined) this.#becomeOldest(rank, request, nowMs);
    else newest.newer = request;
  }

  #endPrefill(request: ActiveRequest, nowMs: number): PrefillEnd {
    const { rank, prefillTokens: tokens, older, newer } = request;
    const elapsedMs = older === undefined ? nowMs - (this.oldestSinceMs[rank] as number) : undefined;
    this.prefillSum[rank]! -= tokens;
    this.prefills[rank]!--;
    if (Number.isNaN(request.prefillMs)) this.#unpredicted[rank]!--;
    invariant((this.prefills[rank] as number) >= 0 && (this.#unpredicted[rank] as number) >= 0, 'a prefill ends once');
    this.prefilledTokens[rank]! += tokens;
    request.prefillTokens = 0;
    request.older = undefined;
    request.newer = undefined;
    if (newer === undefined) this.#newest[rank] = older;
    else newer.older = older;
    if (older === undefined) this.#becomeOldest(rank, newer, nowMs);
    else older.newer = newer;
    return { tokens, elapsedMs, rank, sinceStartMs: nowMs - request.startMs };
  }

  #becomeOldest(rank: number, request: ActiveRequest | undefined, nowMs: number): void {
    this.oldestTokens[rank] = request?.prefillTokens ?? 0;
    this.oldestSinceMs[rank] = nowMs;
    this.#oldestMs[rank] = request?.prefillMs ?? Number.NaN;
  }
}

/** A running request. The prefills of a rank are linked in the order of their start. */
class ActiveRequest {
  readonly id: string;
  readonly rank: number;
  readonly startMs: number;
  readonly promptTokens: number;
  readonly expectedOutputTokens: number | undefined;
  readonly prefillMs: number; // NaN = unknown
  prefillTokens: number;
  older: ActiveRequest | undefined;
  newer: ActiveRequest | undefined;
  hasBlocks = false;
  lastUse = -1;
  ownBlocks = 0; // that no other request can share: output, and prompts without reuse
  ownDiscount = 0;
  blocksSeen = 0;
  firstTokenMs = Number.NaN;
  contextAtFirst = 0;
  prefilledAtFirst = 0;

  constructor(entry: LoadEntry, nowMs: number) {
    this.id = entry.id;
    this.rank = entry.rank;
    this.startMs = nowMs;
    this.promptTokens = entry.promptTokens;
    this.expectedOutputTokens = entry.expectedOutputTokens;
    this.prefillMs = entry.prefillMs ?? Number.NaN;
    this.prefillTokens = entry.prefillTokens;
    this.older = undefined;
    this.newer = undefined;
  }
}

/**
 * Returns the tokens of the oldest prefill that are left after `elapsedMs` of it (release 1.x): at most all, at least
 * none.
 * @param expectedMs predicted length; NaN = unknown, the prefill does not shrink
 */
export function anchoredRemainder(tokens: number, elapsedMs: number, expectedMs: number): number {
  if (Number.isNaN(expectedMs)) return tokens;
  if (expectedMs <= 0) return 0;
  const left = 1 - elapsedMs / expectedMs;
  return Math.ceil(tokens * Math.min(1, Math.max(0, left)));
}

/**
 * Returns the active prefill tokens of a rank whose prefills all have predicted lengths (newest release). If the oldest
 * runs longer than predicted, the excess reduces the tokens of those behind it.
 */
export function spilledRemainder(sum: number, oldestTokens: number, elapsedMs: number, expectedMs: number): number {
  if (expectedMs <= 0) return Math.max(0, sum - oldestTokens);
  return Math.max(0, sum - Math.floor((oldestTokens * Math.max(0, elapsedMs)) / expectedMs));
}
