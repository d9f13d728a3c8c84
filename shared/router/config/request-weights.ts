import { ServeError } from '../../errors/index.ts';
import type { RouterConfigOverride } from '../../protocol/generation/index.ts';
import type { KvRouterConfig } from './kv-config.ts';

/** The part of the configuration that one request may set otherwise. */
export interface RequestWeights {
  readonly overlapScoreCredit: number;
  readonly prefillLoadScale: number;
  readonly routerTemperature: number;
  readonly sharedCacheMultiplier: number;
  readonly assumeKvReuse: boolean;
  readonly trackPrefillTokens: boolean;
}

/**
 * The router's weights with the request's own over them.
 * @throws ServeError `invalid_value` that names the field
 */
export function weightsFor(config: KvRouterConfig, override: RouterConfigOverride | undefined): RequestWeights {
  if (override === undefined) return config;
  const legacy = number(override, 'overlap_score_weight');
  const credit = legacy === 0 ? 0 : number(override, 'overlap_score_credit');
  const scale = legacy ?? number(override, 'prefill_load_scale');
  return {
    overlapScoreCredit: credit ?? config.overlapScoreCredit,
    prefillLoadScale: scale ?? config.prefillLoadScale,
    routerTemperature: number(override, 'router_temperature') ?? config.routerTemperature,
    sharedCacheMultiplier: number(override, 'shared_cache_multiplier', 1) ?? config.sharedCacheMultiplier,
    assumeKvReuse: override.assume_kv_reuse ?? config.assumeKvReuse,
    trackPrefillTokens: override.track_prefill_tokens ?? config.trackPrefillTokens,
  };
}

/**
 * Whether the request sets what only Dynamo's formula has. A set weight keeps its meaning, so that formula scores
 * the request, whichever scores the others.
 */
export function asksForDynamo(override: RouterConfigOverride): boolean {
  return override.track_prefill_tokens === false || DYNAMO_WEIGHTS.some((field) => override[field] !== undefined);
}

const DYNAMO_WEIGHTS = [
  'overlap_score_credit',
  'overlap_score_weight',
  'prefill_load_scale',
  'router_temperature',
  'shared_cache_multiplier',
] as const satisfies readonly (keyof RouterConfigOverride)[];

type NumberField = Exclude<keyof RouterConfigOverride, 'assume_kv_reuse' | 'track_prefill_tokens'>;

function number(override: RouterConfigOverride, field: NumberField, max = Number.MAX_VALUE): number | undefined {
  const value = override[field];
  if (value === undefined || (value >= 0 && value <= max)) return value;
  throw new ServeError('invalid_value', `Invalid request: ${field} must be a finite number of at least 0`, {
    param: `router_config_override.${field}`,
  });
}
