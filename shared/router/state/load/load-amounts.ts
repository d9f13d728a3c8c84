/** What load is counted in. In a change, amounts may be negative. */
export interface LoadAmounts {
  readonly requests: number;
  /** Blocks of KV cache that running requests will hold. */
  readonly decodeBlocks: number;
  /** Prompt tokens that still have to be computed. */
  readonly prefillTokens: number;
}

export const NO_LOAD: LoadAmounts = { requests: 0, decodeBlocks: 0, prefillTokens: 0 };

/** Applies `combine` to each kind of amount. */
export function combineLoad(
  left: LoadAmounts,
  right: LoadAmounts,
  combine: (left: number, right: number) => number,
): LoadAmounts {
  return {
    requests: combine(left.requests, right.requests),
    decodeBlocks: combine(left.decodeBlocks, right.decodeBlocks),
    prefillTokens: combine(left.prefillTokens, right.prefillTokens),
  };
}

export function addLoad(left: LoadAmounts, right: LoadAmounts): LoadAmounts {
  return combineLoad(left, right, (a, b) => a + b);
}

export function subtractLoad(left: LoadAmounts, right: LoadAmounts): LoadAmounts {
  return combineLoad(left, right, (a, b) => a - b);
}

export function isNoLoad({ requests, decodeBlocks, prefillTokens }: LoadAmounts): boolean {
  return requests === 0 && decodeBlocks === 0 && prefillTokens === 0;
}

/** Load of a rank: what runs there, and what was sent there and has not arrived (design, "Counters, and replica sync"). */
export function loadOf(row: {
  readonly active: LoadAmounts;
  readonly reserved: LoadAmounts;
  readonly acked: LoadAmounts;
}): LoadAmounts {
  const underway = combineLoad(row.reserved, row.acked, (reserved, acked) => Math.max(0, reserved - acked));
  return addLoad(row.active, underway);
}
