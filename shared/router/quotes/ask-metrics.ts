import type { MetricRegistry } from '../../telemetry/index.ts';

/**
 * How a request that asked workers found its place. `held`: one promised it. `late`: by what they said, without a promise, as
 * time was over. `unanswered`: fewer than two answered.
 */
export type AskOutcome = 'held' | 'late' | 'unanswered';

/** What a router that asks workers counts. */
export interface AskMetrics {
  asked(outcome: AskOutcome): void;
}

const OUTCOMES: readonly AskOutcome[] = ['held', 'late', 'unanswered'];

export function createAskMetrics(registry: MetricRegistry): AskMetrics {
  const asked = registry.counter(
    'stator_router_asked_total',
    'Requests for which workers were asked what they would cost there, by what came of it.',
    ['outcome'],
  );
  for (const outcome of OUTCOMES) asked.with(outcome);
  return { asked: (outcome) => asked.with(outcome).add() };
}
