import { expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { PlannerReports } from '../../../shared/host/planner-reports.ts';
import type { PlannerSignal } from '../../../shared/protocol/index.ts';
import { PLANNER_EVENT } from '../../../shared/protocol/planner/events.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

it('tells the planner of interruptions and starts in events that it reads', () => {
  const sent: PlannerSignal[] = [];
  const identity = { instanceId: 'i-1', instanceType: 'p5.48xlarge', zone: 'us-east-1b', market: 'spot' } as const;
  const served = { namespace: 'dynamo', model: 'm', pool: 'agg', healthHost: '', healthPath: '' } as const;
  const deps = { clock: new VirtualClock(), random: seededRandom(1) };
  const reports = new PlannerReports({ put: (event) => sent.push(event) }, { identity, served }, deps);
  reports.interrupted({ kind: 'spot-warning', deadlineAtMs: 1_700_000_120_000 });
  reports.interrupted({ kind: 'rebalance' });
  reports.startFailed();
  reports.reached('weights');
  reports.reached('serving', { boot: 12, image: 30.5 });
  for (const event of sent) expect(PLANNER_EVENT.parse(event)).toEqual(event);
  const common = { namespace: 'dynamo', model: 'm', component: 'agg', source: 'i-1', at: 1_700_000_000_000 };
  expect(sent).toMatchObject([
    { ...common, seq: 0, type: 'capacity.interrupt', kind: 'spot-warning', deadline_at: 1_700_000_120_000 },
    { ...common, seq: 1, type: 'capacity.interrupt', kind: 'rebalance', instance_id: 'i-1' },
    { ...common, seq: 2, type: 'capacity.failed', code: 'StartFailed', instance_types: ['p5.48xlarge'] },
    { ...common, seq: 3, type: 'host.phase', instance_id: 'i-1', phase: 'weights' },
    { ...common, seq: 4, type: 'host.phase', phase: 'serving', took_s: { boot: 12, image: 30.5 } },
  ]);
});
