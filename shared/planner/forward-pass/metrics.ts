import type { EnginePass } from '../../engines/index.ts';

/**
 * Of one rank: what one scheduler iteration ran, and what waits. What is left out is 0; so is the wall time of the heartbeat of
 * an idle engine. Queued prompts are whole ones: nobody knows yet what of them is cached.
 */
export interface ForwardPass extends EnginePass {
  readonly workerId: string;
}

/** Load of one pass, as far as its duration depends on it. */
export type PassLoad = Pick<
  ForwardPass,
  'prefillRequests' | 'prefillTokens' | 'prefillKvTokens' | 'decodeRequests' | 'decodeKvTokens'
>;

export type PoolKind = 'prefill' | 'decode' | 'aggregated';

/** The two numbers that the time of a pass is linear in. */
export interface PassFeatures {
  /** Tokens that attention reads, on the busiest rank: the ranks wait for it. */
  readonly attention: number;
  /** Tokens that are computed, on all ranks. */
  readonly work: number;
}

export function featuresOf(ranks: readonly PassLoad[], kind: PoolKind): PassFeatures {
  let attention = 0;
  let work = 0;
  for (const rank of ranks) {
    const prefill = kind === 'decode' ? 0 : attentionOfPrefill(rank);
    const decode = kind === 'prefill' ? 0 : rank.decodeKvTokens;
    attention = Math.max(attention, prefill + decode);
    work += (kind === 'decode' ? 0 : rank.prefillTokens) + (kind === 'prefill' ? 0 : rank.decodeRequests);
  }
  return { attention, work };
}

/** Each new token reads what is before it in its prompt: the prompts of a pass are taken as equally long. */
function attentionOfPrefill({ prefillRequests, prefillTokens, prefillKvTokens }: PassLoad): number {
  if (prefillTokens === 0) return 0;
  const requests = Math.max(1, prefillRequests);
  const beforeChunks = prefillKvTokens + (prefillKvTokens * prefillTokens) / requests;
  return beforeChunks + (prefillTokens * prefillTokens) / (2 * requests) + prefillTokens / 2;
}

/** Passes of different make-up take different times, and each make-up has a fit of its own. */
export type PassMix = 'prefill' | 'decode' | 'apart' | 'together';

export function mixOf(ranks: readonly PassLoad[], kind: PoolKind): PassMix {
  if (kind !== 'aggregated') return kind;
  const prefills = ranks.some(({ prefillTokens }) => prefillTokens > 0);
  const decodes = ranks.some(({ decodeRequests }) => decodeRequests > 0);
  if (!decodes) return 'prefill';
  if (!prefills) return 'decode';
  return ranks.some(({ prefillTokens, decodeRequests }) => prefillTokens > 0 && decodeRequests > 0)
    ? 'together'
    : 'apart';
}
