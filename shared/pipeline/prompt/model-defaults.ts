import type { SamplingDefaults } from '../../discovery/index.ts';
import type { SamplingOptions, StopConditions } from '../../protocol/index.ts';

/** What tokens are drawn by: a greedy request draws none, and some engines take it for a contradiction. */
const OF_DRAWING = ['temperature', 'top_p', 'top_k', 'min_p'] as const;

/** The sampling of a request, the model's own where the client says nothing. */
export function sampledAs(
  sampling: SamplingOptions,
  { max_tokens: _, max_tokens_limit: __, ...defaults }: SamplingDefaults,
): SamplingOptions {
  if (sampling.temperature !== 0) return { ...defaults, ...sampling };
  const left = Object.entries(defaults).filter(([name]) => !OF_DRAWING.some((each) => each === name));
  return { ...Object.fromEntries(left), ...sampling };
}

/**
 * Tokens of a choice that are asked for: by the client, else by the model or this deployment, whichever says less; within the
 * bound that the engine was told. Undefined = as many as there is room for.
 * @param ofDeployment `STATOR_MAX_TOKENS_DEFAULT`
 */
export function tokensAsked(
  { max_tokens: asked, min_tokens: least = 0 }: StopConditions,
  {
    max_tokens: ofModel = Number.POSITIVE_INFINITY,
    max_tokens_limit: limit = Number.POSITIVE_INFINITY,
  }: SamplingDefaults,
  ofDeployment = Number.POSITIVE_INFINITY,
): number | undefined {
  const wanted = asked ?? Math.max(Math.min(ofModel, ofDeployment), least);
  const bound = Math.min(wanted, limit);
  return Number.isFinite(bound) ? bound : undefined;
}
