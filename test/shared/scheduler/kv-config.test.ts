import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../shared/config/index.ts';
import {
  defaultKvRouterConfig,
  type KvRouterConfig,
  kvRouterConfigOf,
  loadAware,
  prefillPoolConfig,
} from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { readGivenConfig } from '../../../shared/scheduler/kv-config-sources.ts';

/** The configuration that an object alone gives. */
const read = (object: Readonly<Record<string, unknown>>) => kvRouterConfig(readGivenConfig(object));

describe('the configuration', () => {
  it.each<[Partial<KvRouterConfig>, string]>([
    [
      { trackOutputBlocks: true, trackActiveBlocks: false },
      'router_track_output_blocks needs router_track_active_blocks',
    ],
    [
      { prefillLoadModel: 'aic', trackPrefillTokens: false },
      'router_prefill_load_model needs router_track_prefill_tokens',
    ],
    [{ useRemoteIndexer: true, serveIndexer: true }, 'use_remote_indexer excludes serve_indexer'],
    [{ approximateCachePolicy: 'lru' }, 'lru needs use_kv_events to be false'],
    [{ predictedTtlMs: 5000, useKvEvents: false }, 'router_predicted_ttl_secs needs use_kv_events'],
    [{ costModel: 'stator', trackPrefillTokens: false }, 'stator needs router_track_prefill_tokens'],
    [{ overlapScoreCredit: Number.NaN }, 'overlap_score_credit must be a finite, non-negative number'],
    [{ hostCacheHitWeight: 1.5 }, 'host_cache_hit_weight must be a number from 0 to 1, not 1.5'],
    [{ routerTemperature: -1 }, 'router_temperature must be'],
    [{ queueThreshold: -1 }, 'router_queue_threshold must be'],
    [{ queueByIncomingMissingIsl: [{ missingTokensFloor: 1, tokensPerWorkerMax: 1 }] }, 'floors must start at 0'],
  ])('is refused with the field that is at fault: %j', (given, message) => {
    expect(() => kvRouterConfig(given)).toThrow(message);
  });

  it('takes the object form, with seconds, null for off, and the older weight', () => {
    expect(
      read({
        overlap_score_credit: 2,
        router_ttl_secs: 5,
        router_queue_threshold: null,
        shared_cache_type: 'hicache',
        router_queue_by_incoming_missing_isl: [{ missing_cache_tokens_floor: 0, max_queue_depth: 4194304 }],
        router_event_threads: 4,
      }),
    ).toEqual({
      ...defaultKvRouterConfig,
      overlapScoreCredit: 2,
      ttlMs: 5000,
      queueThreshold: undefined,
      sharedCacheMultiplier: 0.5,
      queueByIncomingMissingIsl: [{ missingTokensFloor: 0, tokensPerWorkerMax: 4194304 }],
    });
    expect(read({ overlap_score_weight: 0, overlap_score_credit: 2, prefill_load_scale: 3 })).toMatchObject({
      overlapScoreCredit: 0,
      prefillLoadScale: 0,
    });
  });

  it.each([
    [{ overlap_score_credits: 1 }, 'overlap_score_credits is not a field'],
    [{ overlap_score_credit: 'much' }, 'overlap_score_credit must be a number, not "much"'],
    [{ router_queue_policy: 'lifo' }, 'router_queue_policy must be one of fcfs, lcfs, wspt'],
    [{ durable_kv_events: true }, 'durable_kv_events was removed'],
    [{ router_event_threads: 0 }, 'router_event_threads must be'],
    [{ use_kv_events: 1 }, 'use_kv_events must be true or false'],
  ])('refuses what the object form does not know: %j', (object, message) => {
    expect(() => read(object)).toThrow(message);
  });

  it('of flags is the defaults, a set weight keeps its meaning, and the preset looks at load alone', () => {
    const resolve = (...args: string[]) => {
      const { settings } = resolveConfig('frontend', args, {});
      return kvRouterConfigOf(settings);
    };
    expect(resolve()).toEqual({ ...defaultKvRouterConfig, costModel: 'stator' });
    expect(resolve('--router-queue-threshold', 'None', '--router-prefill-load-scale', '32')).toMatchObject({
      queueThreshold: undefined,
      prefillLoadScale: 32,
    });
    expect(resolve('--load-aware')).toMatchObject({ overlapScoreCredit: 0, useKvEvents: false, assumeKvReuse: false });
    expect(resolve('--router-kv-overlap-score-credit', '0.5').costModel).toBe('dynamo');
    expect(resolve('--no-router-track-prefill-tokens').costModel).toBe('dynamo');
    expect(resolve('--router-cost-model', 'dynamo').costModel).toBe('dynamo');
    expect(resolve('--router-temperature', '0.5', '--router-cost-model', 'stator').costModel).toBe('stator');
    expect(resolve('--router-tie-break', 'fewest-blocks')).toMatchObject({
      tieBreak: 'fewest-blocks',
      costModel: 'stator',
    });
  });

  it('of a pool of prefill workers tracks no blocks; of the preset no overlap', () => {
    expect(prefillPoolConfig(kvRouterConfig({ trackOutputBlocks: true }))).toMatchObject({
      trackActiveBlocks: false,
      trackOutputBlocks: false,
    });
    expect(loadAware(kvRouterConfig({ hostCacheHitWeight: 0.5, predictedTtlMs: 1 }))).toMatchObject({
      overlapScoreCredit: 0,
      hostCacheHitWeight: 0.5,
    });
  });
});
