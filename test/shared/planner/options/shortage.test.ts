import { expect, it } from 'vitest';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import { actOnNewest } from '../../../../shared/planner/live/act.ts';
import type { FleetSpec, OptionSpec } from '../../../../shared/planner/options/fleet-spec.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { rollupOf } from '../../../support/planner/fleet-signals.ts';
import { CloudModel } from '../../../support/planner/group-model.ts';
import { plannerOf } from '../../../support/planner/obedient-fleet.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';
const TICK_S = 5;

const onDemand: OptionSpec = {
  id: '0-on-demand',
  group: 'a',
  types: ['g6e.12xlarge'],
  market: 'on-demand',
  gpusPerInstance: 1,
  replicasPerInstance: 1,
  min: 0,
  max: 10,
};
const spot: OptionSpec = { ...onDemand, id: '1-spot', group: 'b', market: 'spot' };
const fleet: FleetSpec = {
  namespace: 'ns',
  model: 'm',
  pools: { decode: { options: [onDemand, spot], gpusPerReplica: 1, startSecs: 300, drainSecs: 600 } },
};

it('decides once in half an hour without capacity, tells why, and comes to the decision when there is capacity', async () => {
  const cloud = new CloudModel(fleet);
  const store = new MemoryPlannerStore({ wallMs: () => cloud.nowMs });
  const planner = plannerOf({ min_endpoint: 8 });
  const [first, second] = cloud.groups;
  first!.desired = 2;
  cloud.work();
  cloud.serve();
  for (const each of cloud.groups) each.hasCapacity = false;
  let seq = 0;
  const tick = async (): Promise<void> => {
    cloud.nowMs += 1000 * TICK_S;
    cloud.work();
    const { decode } = cloud.observe().pools ?? {};
    const counted = { decode: { ready: decode?.ready ?? 0, starting: decode?.starting ?? 0 } };
    const totals = { ...NO_TRAFFIC, started: 10 * seq };
    const signals = [{ signal: rollupOf(0, seq++, totals, cloud.nowMs), sentAtS: cloud.nowMs / 1000 }];
    await handleSignals(signals, { store, group: GROUP, planner, counted, startSeconds: 300 }, NEVER);
    const common = { store, connector: cloud.connector(), group: GROUP, holder: 'one', nowMs: () => cloud.nowMs };
    await actOnNewest({ ...common, tickSeconds: TICK_S, startSeconds: 300, engines: {} }, NEVER);
    cloud.work();
  };
  const decisions = () => store.decisions(GROUP, { sinceMs: 0 }, NEVER);
  for (let at = 0; at < 360; at++) await tick();
  const [stalled, ...others] = await decisions();
  expect(others).toEqual([]);
  expect(stalled).toMatchObject({ status: 'STALLED', targets: { decode: 8 }, code: 'InsufficientInstanceCapacity' });
  expect(stalled?.problem).toMatch(/^decode: 6 of 8 workers are missing, and no option has room/);
  expect(cloud.groups.map(({ desired, present }) => desired - present.length)).toEqual([0, 0]); // nothing is left on order
  second!.hasCapacity = true;
  for (let at = 0; at < 400; at++) {
    await tick();
    cloud.serve();
  }
  expect(cloud.groups.map(({ present }) => present.length)).toEqual([2, 6]);
  expect(await decisions()).toMatchObject([{ decisionId: 0, status: 'APPLIED' }]);
});
