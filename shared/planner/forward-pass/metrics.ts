import type { EnginePass } from '../../engines/index.ts';

/**
 * Work of one scheduler iteration of a rank, and its waiting work. Fields that are left out are 0; so is the wall time
 * of the heartbeat of an idle engine. Queued prompts count in full, because their cached part is not known yet.
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

/** The two numbers on which the time of a pass depends linearly. */
export interface PassFeatures {
  /** Tokens that attention reads on the busiest rank, for which the others wait. */
  readonly attention: number;
  /** Tokens that all ranks compute. */
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

/** Each new token reads the tokens before it in its prompt. The prompts of a pass are assumed to have equal lengths. */
function attentionOfPrefill({ prefillRequests, prefillTokens, prefillKvTokens }: PassLoad): number {
  if (prefillTokens === 0) return 0;
  const requests = Math.max(1, prefillRequests);
  const beforeChunks = prefillKvTokens + (prefillKvTokens * prefillTokens) / requests;
  return beforeChunks + (prefillTokens * prefillTokens) / (2 * requests) + prefillTokens / 2;
}

/** Returns the mix of a pass. Passes of different mixes take different times, so each mix has a fit of its own. */
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
