import type { MetricRegistry } from './registry.ts';

/** What routers share and what can be away: the label `part`. */
export type SharedPart = 'table' | 'log' | 'snapshots' | 'replicas';

const PARTS: readonly SharedPart[] = ['table', 'log', 'snapshots', 'replicas'];

/** What a process counts of the state that it shares with other routers. Nothing here throws or waits. */
export interface RouterStateMetrics {
  /** A call failed, or something was found damaged. */
  problem(part: SharedPart): void;
  /** Whether the process goes on with what it last knew, for want of `part`. */
  away(part: SharedPart, isAway: boolean): void;
  /** The index of a component was made anew. */
  hydrated(from: 'snapshot' | 'dumps'): void;
  snapshotWritten(): void;
  /** Whether this process writes the snapshots of the component. */
  leaseHeld(component: string, isHeld: boolean): void;
}

export function createRouterStateMetrics(registry: MetricRegistry): RouterStateMetrics {
  const name = (rest: string): string => `stator_router_state_${rest}`;
  const problems = registry.counter(name('problems_total'), 'Failures of what routers share.', ['part']);
  const away = registry.gauge(name('away'), '1 while the router goes on with what it last knew.', ['part']);
  const hydrations = registry.counter(
    'stator_router_index_hydrations_total',
    'Indexes that were made anew, from a snapshot or from dumps of the workers.',
    ['from'],
  );
  const snapshots = registry.counter('stator_router_index_snapshots_total', 'Snapshots written.').with();
  const leases = registry.gauge(name('lease_held'), '1 where this process writes for the others.', ['component']);
  for (const part of PARTS) {
    problems.with(part);
    away.with(part).set(0);
  }
  return {
    problem: (part) => problems.with(part).add(),
    away: (part, isAway) => away.with(part).set(isAway ? 1 : 0),
    hydrated: (from) => hydrations.with(from).add(),
    snapshotWritten: () => snapshots.add(),
    leaseHeld: (component, isHeld) => leases.with(component).set(isHeld ? 1 : 0),
  };
}

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
