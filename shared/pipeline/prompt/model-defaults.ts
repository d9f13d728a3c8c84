import type { SamplingDefaults } from '../../discovery/index.ts';
import type { SamplingOptions, StopConditions } from '../../protocol/index.ts';

/** Parameters of drawing tokens. A greedy request draws none, and some engines refuse the combination. */
const OF_DRAWING = ['temperature', 'top_p', 'top_k', 'min_p'] as const;

/** Returns the sampling of a request, with the model's defaults for what the client left out. */
export function sampledAs(
  sampling: SamplingOptions,
  { max_tokens: _, max_tokens_limit: __, ...defaults }: SamplingDefaults,
): SamplingOptions {
  if (sampling.temperature !== 0) return { ...defaults, ...sampling };
  const left = Object.entries(defaults).filter(([name]) => !OF_DRAWING.some((each) => each === name));
  return { ...Object.fromEntries(left), ...sampling };
}

/**
 * Returns the requested tokens of a choice: the client's number, otherwise the smaller one of the model's and this
 * deployment's. The bound of the engine limits it. Undefined = as many as there is room for. The tokens of thinking
 * that the client names come on top of the deployment's number, so that they leave room for an answer.
 * @param ofDeployment `STATOR_MAX_TOKENS_DEFAULT`
 */
export function tokensAsked(
  { max_tokens: asked, min_tokens: least = 0, max_thinking_tokens: thinking = 0 }: StopConditions,
  {
    max_tokens: ofModel = Number.POSITIVE_INFINITY,
    max_tokens_limit: limit = Number.POSITIVE_INFINITY,
  }: SamplingDefaults,
  ofDeployment = Number.POSITIVE_INFINITY,
): number | undefined {
  const wanted = asked ?? Math.max(Math.min(ofModel, ofDeployment + thinking), least);
  const bound = Math.min(wanted, limit);
  return Number.isFinite(bound) ? bound : undefined;
}
