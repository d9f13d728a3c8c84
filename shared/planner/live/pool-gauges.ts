import type { MetricRegistry } from '../../telemetry/index.ts';
import type { PlannerConfig } from '../config.ts';
import type { LawTick } from '../decide/tick-law.ts';
import { poolsOf } from '../laws/pools.ts';
import type { Targets } from '../types.ts';

/**
 * Returns the gauges of a planner's pools, by which a scaler of the operator may act. A pool has no series before the
 * planner knows a decision or has counted the workers, because a scaler would take a 0 for a decision.
 */
export function poolGauges(registry: MetricRegistry, config: PlannerConfig, namespace: string) {
  const labels = ['dynamo_namespace', 'model', 'pool'];
  const wanted = registry.gauge(
    'stator_planner_target_replicas',
    'Workers that a pool should have: as decided last, or those there are before the first decision.',
    ...labels,
  );
  const present = registry.gauge('stator_planner_replicas', 'Workers of a pool, by state.', ...labels, 'state');
  let counts: LawTick['counts'] | undefined;
  return {
    /** Takes the numbers of workers that a tick has counted. */
    ticked: (tick: Pick<LawTick, 'counts'>): void => {
      counts = tick.counts;
    },
    wants: (model: string, targets: Targets | undefined): void => {
      for (const pool of poolsOf(config)) {
        const { ready = 0, starting = 0 } = counts?.[pool] ?? {};
        const target = targets?.[pool];
        if (counts !== undefined || target !== undefined) {
          wanted.with(namespace, model, pool).set(target ?? ready + starting);
        }
        if (counts === undefined) continue;
        present.with(namespace, model, pool, 'ready').set(ready);
        present.with(namespace, model, pool, 'starting').set(starting);
      }
    },
  };
}
