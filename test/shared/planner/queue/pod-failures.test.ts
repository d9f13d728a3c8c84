import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import { QueuePlanner } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { clusterFleet, type PodFleet, podOption, startPodFleet } from '../../../support/planner/pod-fleet.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns/m';
const FLEET = clusterFleet([podOption(0, { id: '0-spot', market: 'spot' }), podOption(1)]);

type Failures = { readonly noNode: number; readonly noStart: number };

/** Begins a planner of two workers: on spot, or on demand if spot has none. */
function plannerOf(bed: PodFleet) {
  const config = { mode: 'agg', rate_requests_per_second: 1, min_endpoint: 2, start_seconds: 60, max_gpu_budget: -1 };
  const heard: (Failures | undefined)[] = [];
  const queue = new QueuePlanner({
    models: [
      {
        group: GROUP,
        fleet: FLEET,
        planner: { config: parsePlannerConfig(config), engines: { decode: { gpus: 1 } } },
        connector: bed.connector,
      },
    ],
    store: new MemoryPlannerStore(bed.clock),
    clock: bed.clock,
    logger: captureLogger().logger.for('planner'),
    holder: 'h',
    groupsOf: async () => new Map(),
    refresh: async () => {},
    onUnknown: () => {},
    onPlanned: ({ podFailures }) => heard.push(podFailures),
  });
  let ticks = 0;
  /** Plays a tick each minute. Returns what the planner reported of pods after each of them. */
  return async (minutes: number): Promise<readonly (Failures | undefined)[]> => {
    heard.length = 0;
    for (let at = 0; at < minutes; at++) {
      await bed.clock.advance(60_000);
      const sentAtMs = bed.clock.wallMs();
      const parts = { v: 1, namespace: 'ns', model: 'm', source: 'scheduler', epoch: `t${++ticks}`, seq: 0 };
      const body = JSON.stringify({ ...parts, type: 'tick', at: new Date(sentAtMs).toISOString() });
      expect(await queue.handle([{ messageId: parts.epoch, group: GROUP, body, sentAtMs }], NEVER)).toEqual([]);
    }
    return [...heard];
  };
}

describe('failures of pods that a planner reports', () => {
  it('leave out an option without nodes while another option has all workers', async () => {
    await using bed = await startPodFleet(FLEET);
    bed.workloads.addDeployment('w0', 0);
    bed.workloads.addDeployment('w1', 0);
    bed.workloads.nodeless.add('w0');
    const tick = plannerOf(bed);
    const first = await tick(5);
    expect(first.filter((each) => each?.noNode === 1)).toHaveLength(1); // no worker is up yet
    let attempts = 0;
    bed.api.store('deployments').listen(({ last: { metadata, spec } }) => {
      if (metadata.name === 'w0' && (spec as { readonly replicas: number }).replicas > 0) attempts++;
    });
    const later = await tick(60); // the planner tries the cheaper option again
    expect(attempts).toBeGreaterThan(1);
    expect(bed.workloads.podsOf('w1').filter((pod) => bed.workloads.isReady(pod))).toHaveLength(2);
    expect(later.filter((each) => each?.noNode !== 0 || each.noStart !== 0)).toEqual([]);
  });

  it('count each option without nodes while workers are missing', async () => {
    await using bed = await startPodFleet(FLEET);
    bed.workloads.addDeployment('w0', 0);
    bed.workloads.addDeployment('w1', 0);
    const tick = plannerOf(bed);
    await tick(5);
    expect(bed.workloads.podsOf('w0')).toHaveLength(2);
    bed.workloads.nodeless.add('w0').add('w1');
    for (const pod of bed.workloads.podsOf('w0')) bed.workloads.removePod(pod); // Spot takes both nodes
    const told = await tick(5);
    expect(told.filter((each) => each?.noNode === 1).length).toBeGreaterThan(1);
  });
});
