import { describe, expect, it } from 'vitest';
import type { DecisionRecord } from '../../../../shared/planner/index.ts';
import { actOnNewest } from '../../../../shared/planner/live/act.ts';
import type { FleetSpec, PoolSpec } from '../../../../shared/planner/options/fleet-spec.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { CloudModel } from '../../../support/planner/group-model.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';
/** GPUs of six instances. */
const GPUS_MAX = 24;

const pool: PoolSpec = {
  options: [
    {
      id: '0-on-demand',
      group: 'g',
      types: ['g6e.12xlarge'],
      market: 'on-demand',
      gpusPerInstance: 4,
      replicasPerInstance: 1,
      min: 0,
      max: 10,
    },
  ],
  gpusPerReplica: 3, // the fourth GPU of an instance is held all the same
  startSecs: 300,
  drainSecs: 600,
};
const fleet: FleetSpec = { namespace: 'ns', model: 'm', pools: { prefill: pool, decode: pool } };

function bedOf() {
  const cloud = new CloudModel(fleet);
  const store = new MemoryPlannerStore({ wallMs: () => cloud.nowMs });
  let version = 0;
  const decide = async (prefill: number, decode: number): Promise<void> => {
    const decision: DecisionRecord = {
      decisionId: version,
      status: 'PENDING',
      targets: { prefill, decode },
      previous: {},
      reason: '',
      isAdvisory: false,
      configHash: '',
      decidedAtMs: cloud.nowMs,
      figures: {},
    };
    await store.commit(GROUP, { version: version++, state: '', decision }, NEVER);
  };
  const act = async () => {
    const common = { store, connector: cloud.connector(), group: GROUP, holder: 'one', nowMs: () => cloud.nowMs };
    const options = { ...common, tickSeconds: 5, startSeconds: 300, gpusMax: GPUS_MAX, engines: {} };
    const decision = await actOnNewest(options, NEVER);
    cloud.work();
    return decision;
  };
  /** Everything serves, and is old enough to end. */
  const serve = (): void => {
    cloud.serve();
    cloud.nowMs += 200_000;
  };
  const desired = () => cloud.groups.map((group) => group.desired);
  return { cloud, store, decide, act, serve, desired };
}

describe('the budget of GPUs', () => {
  it('lets a pool grow as the instances of another one go, and not when that was decided', async () => {
    const { cloud, decide, act, serve, desired, store } = bedOf();
    await decide(4, 2);
    await act();
    serve();
    await decide(2, 4);
    const waits = 'the decision waits for GPUs of the budget that instances still hold';
    expect(await act()).toMatchObject({ status: 'APPLYING', problem: waits });
    expect(desired()).toEqual([2, 2]);
    await act();
    expect(desired()).toEqual([2, 2]); // they drain
    expect(await store.reservations(NEVER)).toEqual({ [`${GROUP}/prefill`]: 16, [`${GROUP}/decode`]: 8 });
    const draining = cloud.groups[0]!.instances.find(({ state }) => state === 'draining');
    cloud.groups[0]!.instances = cloud.groups[0]!.instances.filter((each) => each !== draining);
    await act();
    expect(desired()).toEqual([2, 3]);
    cloud.drained();
    await act();
    expect(desired()).toEqual([2, 4]);
    serve();
    expect(await act()).toMatchObject({ status: 'APPLIED' });
    expect(await store.reservations(NEVER)).toEqual({ [`${GROUP}/prefill`]: 8, [`${GROUP}/decode`]: 16 });
  });

  it('counts GPUs of whole instances', async () => {
    const { decide, act, desired } = bedOf();
    await decide(0, 7); // 21 GPUs of engines, 28 of instances
    expect(await act()).toMatchObject({ status: 'REJECTED_BUDGET' });
    expect(desired()).toEqual([0, 0]);
  });

  it('does not keep a fleet from shrinking that has become larger than the budget by hand', async () => {
    const { cloud, decide, act, serve, desired } = bedOf();
    cloud.groups[1]!.desired = 9;
    cloud.work();
    serve();
    await decide(0, 4);
    expect(await act()).toMatchObject({ status: 'APPLYING' });
    expect(desired()).toEqual([0, 4]);
  });
});
