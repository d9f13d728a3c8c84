import type { MetricRegistry } from './registry.ts';

const STATES = ['pending', 'active', 'unavailable'] as const;

/** What operators see of prompts that are computed apart. */
export interface DisaggregationMetrics {
  /** A decode worker computed a prompt that a prefill worker should have. */
  decodedAlone(model: string): void;
  setState(model: string, state: (typeof STATES)[number]): void;
}

export function createDisaggregationMetrics(registry: MetricRegistry): DisaggregationMetrics {
  const alone = registry.counter(
    'dynamo_frontend_decode_only_fallback_total',
    'Prompts that a decode worker computed because no prefill worker did.',
    ['model'],
  );
  const states = registry.gauge(
    'stator_frontend_prefill_state',
    '1 for the state of the prefill workers of a model that has decode workers.',
    ['model', 'state'],
  );
  return {
    decodedAlone: (model) => alone.with(model).add(),
    setState: (model, now) => {
      for (const state of STATES) states.with(model, state).set(state === now ? 1 : 0);
    },
  };
}
