import { describe, expect, it } from 'vitest';
import { handleBatch, PlannerConflict } from '../../../../shared/planner/decide/handle-batch.ts';
import { handleQueueBatch, type QueueRecord } from '../../../../shared/planner/decide/queue-batch.ts';
import type { PlannerStore } from '../../../../shared/planner/index.ts';
import { toSignals } from '../../../../shared/planner/signals/eventbridge-events.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { BEGIN_S, heldAt, tickAt } from '../../../support/planner/fleet-signals.ts';
import { plannerOf } from '../../../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;

function recordOf(messageId: string, group: string, body: unknown, atS = 0): QueueRecord {
  return { messageId, group, body: JSON.stringify(body), sentAtMs: 1000 * (BEGIN_S + atS) };
}

describe('a batch of a queue', () => {
  it('has as failures all messages of a group whose planner was always slower, and no others', async () => {
    const store = new MemoryPlannerStore();
    const readState: PlannerStore['readState'] = (...args) => store.readState(...args);
    const losing = { name: 'memory', readState, commit: async () => false } as Partial<PlannerStore> as PlannerStore;
    const failed: [string, unknown][] = [];
    const tick = tickAt(0, 0).signal;
    const records = [
      recordOf('1', 'a', tick),
      recordOf('2', 'b', tick),
      recordOf('3', 'a', heldAt(1, 0).signal),
      recordOf('4', 'c', tick),
      recordOf('5', 'a', 'what no planner can read'),
    ];
    const answer = await handleQueueBatch(
      records,
      {
        handle: (group, messages, signal) =>
          handleBatch(messages, { store: group === 'a' ? losing : store, group, planner: plannerOf() }, signal),
        onFailed: (group, reason) => failed.push([group, reason]),
      },
      NEVER,
    );
    expect(answer).toEqual(['1', '3', '5']);
    expect(failed).toEqual([['a', expect.any(PlannerConflict)]]);
    expect(await store.readState('a', NEVER)).toBeUndefined();
    expect(await store.readState('c', NEVER)).toMatchObject({ version: 1 });
  });

  it('hands groups back that there is no time for', async () => {
    const over = AbortSignal.abort(new Error('the time is over'));
    const handle = async (): Promise<void> => expect.unreachable();
    const answer = await handleQueueBatch([recordOf('1', 'a', {})], { handle, onFailed: () => {} }, over);
    expect(answer).toEqual(['1']);
  });

  it('takes events of the environment, and counts those that say nothing', async () => {
    const store = new MemoryPlannerStore();
    const event = {
      id: 'event-1',
      'detail-type': 'EC2 Instance Launch Unsuccessful',
      source: 'aws.autoscaling',
      time: '2026-11-28T18:00:00Z',
      detail: { AutoScalingGroupName: 'g', ActivityId: 'a', StatusMessage: 'Max spot instance count exceeded.' },
    };
    const places = {
      ofGroup: () => ({ namespace: 'ns', model: 'm', component: 'agg' as const }),
      groupOf: () => undefined,
      inReservation: () => [],
    };
    const unknown: string[] = [];
    const refused: string[] = [];
    const { report } = await handleBatch(
      [recordOf('1', 'a', event), recordOf('2', 'a', { ...event, 'detail-type': 'Other' }), recordOf('3', 'a', {})],
      {
        ...{ store, group: 'a', planner: plannerOf() },
        translate: (body) => toSignals(body, places),
        onUnknown: (what) => unknown.push(what),
        onRefused: (problem) => refused.push(problem),
      },
      NEVER,
    );
    expect(report.taken).toBe(1);
    expect(unknown).toEqual(['aws.autoscaling: Other']);
    expect(refused).toHaveLength(1);
  });
});
