import { stepBounds } from './buckets.ts';
import type { Gauge, MetricRegistry } from './registry.ts';

const TOKENIZER_LATENCY_MS = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const TEMPLATE_SECONDS = [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05];

type StageLabel = 'preprocess' | 'route' | 'dispatch';
type TimedStageLabel = 'preprocess' | 'route' | 'transport_roundtrip' | 'postprocess';
type PhaseLabel = 'prefill' | 'decode' | 'aggregated' | '';

/** Counts what happens between the entry of a request and its end. Series are looked up once, here. */
export function createStageMetrics(registry: MetricRegistry) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_');
  const seconds = stepBounds(0.0001, 5);
  const stageRequests = gauge('stage_requests', 'Requests that are in a stage.', 'stage', 'phase');
  const stageDuration = histogram('stage_duration_seconds', 'Time that a request spent in a stage.', seconds, 'stage');
  const tokenize = histogram('tokenize_seconds', 'Time to tokenize a prompt.', stepBounds(0.0001, 1)).with();
  const template = histogram('template_seconds', 'Time to render a chat template.', TEMPLATE_SECONDS).with();
  const detokenizeUs = counter('detokenize_total_us', 'Microseconds spent turning tokens into text.').with();
  const detokenizeTokens = counter('detokenize_token_count', 'Tokens turned into text.').with();
  const tokenizerLatency = histogram(
    'tokenizer_latency_ms',
    'Milliseconds to tokenize a prompt, or to detokenize one token on average over a request.',
    TOKENIZER_LATENCY_MS,
    'operation',
  );
  const cacheHits = counter('tokenizer_cache_hits_total', 'Prompts with a cached tokenized prefix.').with();
  const cacheMisses = counter('tokenizer_cache_misses_total', 'Prompts without one.').with();
  const cachedPromptTokens = counter(
    'tokenizer_cache_cached_tokens_total',
    'Prompt tokens taken from the tokenizer cache.',
    'model',
  );
  const uncachedPromptTokens = counter(
    'tokenizer_cache_uncached_tokens_total',
    'Prompt tokens that had to be tokenized.',
    'model',
  );
  const tokenizeLatency = tokenizerLatency.with('tokenize');
  const detokenizeLatency = tokenizerLatency.with('detokenize');
  const durations = {
    preprocess: stageDuration.with('preprocess'),
    route: stageDuration.with('route'),
    transport_roundtrip: stageDuration.with('transport_roundtrip'),
    postprocess: stageDuration.with('postprocess'),
  };
  const phasesOf = (stage: StageLabel): Record<PhaseLabel, Gauge> => ({
    prefill: stageRequests.with(stage, 'prefill'),
    decode: stageRequests.with(stage, 'decode'),
    aggregated: stageRequests.with(stage, 'aggregated'),
    '': stageRequests.with(stage, ''),
  });
  const requests = { preprocess: phasesOf('preprocess'), route: phasesOf('route'), dispatch: phasesOf('dispatch') };
  return {
    /** Counts a request as in `stage`, until `stageLeft` with the same arguments. @param phase none by default */
    stageEntered: (stage: StageLabel, phase: PhaseLabel = '') => requests[stage][phase].add(1),
    stageLeft: (stage: StageLabel, phase: PhaseLabel = '') => requests[stage][phase].add(-1),
    /** Counts how long a request was in `stage`. */
    stage: (stage: TimedStageLabel, durationMs: number) => durations[stage].observe(durationMs / 1000),
    /** Counts the time to tokenize a prompt. */
    tokenize(durationMs: number): void {
      tokenize.observe(durationMs / 1000);
      tokenizeLatency.observe(durationMs);
    },
    /** Counts the time to render a chat template. */
    template: (durationMs: number) => template.observe(durationMs / 1000),
    /** Counts, once a request, all the time that turning `tokenCount` tokens into text took. */
    detokenize(totalMs: number, tokenCount: number): void {
      if (tokenCount === 0) return;
      detokenizeUs.add(totalMs * 1000);
      detokenizeTokens.add(tokenCount);
      detokenizeLatency.observe(totalMs / tokenCount);
    },
    /** Counts a tokenized prompt, of which `cachedTokens` came from the cache of the tokenizer. */
    tokenizerCache(model: string, cachedTokens: number, uncachedTokens: number): void {
      (cachedTokens > 0 ? cacheHits : cacheMisses).add();
      cachedPromptTokens.with(model).add(cachedTokens);
      uncachedPromptTokens.with(model).add(uncachedTokens);
    },
  };
}
