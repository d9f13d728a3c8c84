import type { MetricRegistry } from './registry.ts';

/** What became of an event for the planner's queue; of `superseded` ones a newer one has all that they counted. */
const OUTCOMES = ['sent', 'superseded', 'expired', 'no_room', 'no_time', 'handed_over', 'too_long'] as const;

/** What operators see of events on their way to a planner. */
export interface PlannerQueueMetrics {
  /** So many wait to be sent now. */
  waiting(count: number): void;
  ended(outcome: (typeof OUTCOMES)[number], count: number): void;
  /** The queue did not take what it was sent. */
  failed(): void;
}

export function createPlannerQueueMetrics(registry: MetricRegistry): PlannerQueueMetrics {
  const name = (rest: string): string => `stator_planner_queue_${rest}`;
  const waiting = registry.gauge(name('waiting_events'), 'Events for the planner that wait to be sent.').with();
  const events = registry.counter(name('events_total'), 'Events for the planner, by what became of them.', ['outcome']);
  const failures = registry.counter(name('failures_total'), 'Times that the planner queue took no events.').with();
  for (const outcome of OUTCOMES) events.with(outcome).add(0);
  waiting.set(0);
  failures.add(0);
  return {
    waiting: (count) => waiting.set(count),
    ended: (outcome, count) => events.with(outcome).add(count),
    failed: () => failures.add(),
  };
}
