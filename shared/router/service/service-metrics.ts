import type { MetricRegistry } from '../../telemetry/index.ts';
import type { UnansweredReason } from './choose-call.ts';
import type { RemoteIndexObserver } from './remote-index.ts';

/** Where a decision came from. */
export type DecisionSource = 'resident' | 'embedded' | 'stateless';

/** Why the resident router did not make it. `unknown_worker`: it chose one that this process has not heard of. */
export type FallbackReason = UnansweredReason | 'no_resident' | 'unknown_worker';

/** What a process that asks resident routers counts. */
export interface LadderMetrics {
  decided(source: DecisionSource): void;
  fellBack(reason: FallbackReason): void;
}

const SOURCES: readonly DecisionSource[] = ['resident', 'embedded', 'stateless'];
const REASONS: readonly FallbackReason[] = ['no_resident', 'standby', 'lost', 'silent', 'unknown_worker'];

export function createLadderMetrics(registry: MetricRegistry): LadderMetrics {
  const decisions = registry.counter('stator_router_decisions_total', 'Routing decisions by where they were made.', [
    'source',
  ]);
  const fallbacks = registry.counter(
    'stator_router_fallbacks_total',
    'Requests that the resident router did not decide, by why.',
    ['reason'],
  );
  const degraded = registry.gauge('stator_router_degraded', '1 while the last decision was not the resident router’s.');
  for (const source of SOURCES) decisions.with(source);
  for (const reason of REASONS) fallbacks.with(reason);
  return {
    decided(source) {
      decisions.with(source).add();
      degraded.with().set(source === 'resident' ? 0 : 1);
    },
    fellBack: (reason) => fallbacks.with(reason).add(),
  };
}

/** What a resident router counts beside what every router does. */
export interface ResidentMetrics {
  expired(wasSeen: boolean): void;
}

/** Facts that are read when somebody looks. */
export interface ResidentFacts {
  readonly isAnswering: boolean;
  readonly reservations: number;
  readonly waiting: number;
}

export function createResidentMetrics(registry: MetricRegistry, facts: () => ResidentFacts): ResidentMetrics {
  const answering = registry.gauge('stator_router_answering', '1 while this process answers for the resident router.');
  const reservations = registry.gauge('stator_router_reservations', 'Places held for requests of other processes.');
  const waiting = registry.gauge('stator_router_waiting_queries', 'Queries of other processes that wait in the queue.');
  const expired = registry.counter(
    'stator_router_reservations_expired_total',
    'Places freed because their request was never seen at the worker, or nothing was heard of it any more.',
    ['seen'],
  );
  for (const seen of ['true', 'false']) expired.with(seen);
  registry.beforeScrape(() => {
    const now = facts();
    answering.with().set(now.isAnswering ? 1 : 0);
    reservations.with().set(now.reservations);
    waiting.with().set(now.waiting);
  });
  return { expired: (wasSeen) => expired.with(String(wasSeen)).add() };
}

/** What a router with a remote index counts. @param routerId hex */
export function createRemoteIndexMetrics(registry: MetricRegistry, routerId: string): RemoteIndexObserver {
  const failures = (what: string, about: string) =>
    registry
      .counter(`dynamo_component_router_remote_indexer_${what}_failures_total`, about, ['router_id'])
      .with(routerId);
  const queries = failures('query', 'Requests routed without an answer of the remote indexer.');
  const writes = failures('write', 'Routing decisions that the remote indexer did not take.');
  return { queryFailed: () => queries.add(), writeFailed: () => writes.add() };
}
