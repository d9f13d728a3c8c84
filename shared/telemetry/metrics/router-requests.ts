import { type Buckets, logBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';
import { placeOf, type RouterIdentity, type RouterPoolLabels } from './router-labels.ts';

/** Inter-token latency has a shorter range here than on the frontend's own metric. */
const ROUTER_ITL = { min: 0.001, max: 2, count: 13 };

/** Counts the requests that the router sends, and what becomes of them. */
export function createRouterRequests(registry: MetricRegistry, router: RouterIdentity, buckets: Buckets) {
  const own = { ...placeOf(router), router_id: router.routerId };
  const { counter, histogram } = registry.under('dynamo_component_router_', own);
  const started = counter('requests_started_total', 'Requests that the router sent to a worker.').with();
  const ended = counter('requests_total', 'Requests that left their worker.').with();
  const ttft = histogram(
    'time_to_first_token_seconds',
    'Time from the decision to the first token.',
    logBounds(buckets.ttft),
  ).with();
  const itl = histogram(
    'inter_token_latency_seconds',
    'Time between output tokens, counted once a token.',
    logBounds(ROUTER_ITL),
  ).with();
  const inputTokens = histogram(
    'input_sequence_tokens',
    'Prompt tokens of a request.',
    logBounds(buckets.inputSequence),
    'model',
    'phase',
  );
  const outputTokens = histogram(
    'output_sequence_tokens',
    'Output tokens of a request that had any.',
    logBounds(buckets.outputSequence),
  ).with();
  return {
    /** Returns a function that counts one decision of a pool. */
    pool({ model, phase }: RouterPoolLabels): (promptTokens: number) => void {
      const promptTokensOf = inputTokens.with(model, phase);
      return (promptTokens) => {
        started.add();
        promptTokensOf.observe(promptTokens);
      };
    },
    firstToken: (ms: number) => ttft.observe(ms / 1000),
    /** `tokens` came `gapMs` after those before. */
    tokens: (gapMs: number, tokens: number) => itl.observe(gapMs / 1000 / tokens, tokens),
    ended(tokens: number): void {
      ended.add();
      if (tokens > 0) outputTokens.observe(tokens);
    },
  };
}
