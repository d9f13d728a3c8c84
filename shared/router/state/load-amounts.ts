import type { RankWeight } from '../scheduler/types.ts';
import type { LoadRow, RankId } from './types.ts';

export const NO_LOAD: RankWeight = { requests: 0, decodeBlocks: 0, prefillTokens: 0 };

/** Applies `combine` to each kind of amount. */
export function combineLoad(
  left: RankWeight,
  right: RankWeight,
  combine: (left: number, right: number) => number,
): RankWeight {
  return {
    requests: combine(left.requests, right.requests),
    decodeBlocks: combine(left.decodeBlocks, right.decodeBlocks),
    prefillTokens: combine(left.prefillTokens, right.prefillTokens),
  };
}

export function addLoad(left: RankWeight, right: RankWeight): RankWeight {
  return combineLoad(left, right, (a, b) => a + b);
}

export function subtractLoad(left: RankWeight, right: RankWeight): RankWeight {
  return combineLoad(left, right, (a, b) => a - b);
}

export function isNoLoad({ requests, decodeBlocks, prefillTokens }: RankWeight): boolean {
  return requests === 0 && decodeBlocks === 0 && prefillTokens === 0;
}

/** Load of a rank: what runs there, and what was sent there and has not arrived (design, "Counters, and replica sync"). */
export function loadOf(row: {
  readonly active: RankWeight;
  readonly reserved: RankWeight;
  readonly acked: RankWeight;
}): RankWeight {
  const underway = combineLoad(row.reserved, row.acked, (reserved, acked) => Math.max(0, reserved - acked));
  return addLoad(row.active, underway);
}

/** Header of a request for which amounts were reserved in the shared counters: its worker counts them as arrived. */
export const RESERVED_HEADER = 'x-stator-reserved';

/** What was reserved for one request, and at which rank. */
export interface ReservedAmounts {
  readonly dpRank: number;
  readonly amounts: RankWeight;
}

const AMOUNT_MAX = 1e9;

/** `rank,requests,blocks,tokens` in decimal. */
export function encodeReserved({ dpRank, amounts }: ReservedAmounts): string {
  return `${dpRank},${amounts.requests},${amounts.decodeBlocks},${amounts.prefillTokens}`;
}

/** Undefined when the text is not what `encodeReserved` makes: then nothing was reserved that anybody could count. */
export function decodeReserved(text: string): ReservedAmounts | undefined {
  const numbers = text.split(',').map((part) => (/^\d{1,10}$/.test(part) ? Number(part) : Number.NaN));
  const [dpRank, requests, decodeBlocks, prefillTokens] = numbers;
  if (dpRank === undefined || requests === undefined || decodeBlocks === undefined || prefillTokens === undefined) {
    return undefined;
  }
  if (numbers.length !== 4 || !numbers.every((number) => number <= AMOUNT_MAX)) return undefined;
  return { dpRank, amounts: { requests, decodeBlocks, prefillTokens } };
}

export interface SharedLoadOptions {
  /** What this router's load model knows of a rank by itself: its own requests and those that other routers told of. */
  knownLoad(rank: RankId): RankWeight;
  /** What the rank carries beyond that. The model adds it to the load until told otherwise. */
  setUnattributedLoad(rank: RankId, amounts: RankWeight): void;
}

interface RankView {
  readonly rank: RankId;
  /** Of the look before. */
  beyond: RankWeight;
  unattributed: RankWeight;
}

/**
 * Makes the shared counters part of a router's own load model, so that replicas agree also where they do not hear of each
 * other (design, "Counters, and replica sync"). What the counters have beyond what the router knows was sent by others. A
 * request that ended just now is still in the last report of its worker: only what was beyond at two looks counts.
 */
export class SharedLoad {
  readonly #options: SharedLoadOptions;
  #views = new Map<string, RankView>(); // bounded by the ranks of the last look

  constructor(options: SharedLoadOptions) {
    this.#options = options;
  }

  /** Takes one look at the counters of the pool. */
  observe(rows: readonly LoadRow[]): void {
    const { knownLoad, setUnattributedLoad } = this.#options;
    const views = new Map<string, RankView>();
    for (const row of rows) {
      const key = `${row.rank.workerId}/${row.rank.dpRank}`;
      const view = this.#views.get(key);
      const beyond = combineLoad(subtractLoad(loadOf(row), knownLoad(row.rank)), NO_LOAD, Math.max);
      const unattributed = combineLoad(beyond, view?.beyond ?? NO_LOAD, Math.min);
      if (!isSame(unattributed, view?.unattributed ?? NO_LOAD)) setUnattributedLoad(row.rank, unattributed);
      views.set(key, { rank: row.rank, beyond, unattributed });
    }
    for (const [key, { rank, unattributed }] of this.#views) {
      if (!views.has(key) && !isNoLoad(unattributed)) setUnattributedLoad(rank, NO_LOAD); // withdrawn
    }
    this.#views = views;
  }
}

function isSame(left: RankWeight, right: RankWeight): boolean {
  return isNoLoad(subtractLoad(left, right));
}
