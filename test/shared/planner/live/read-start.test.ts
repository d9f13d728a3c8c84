import { describe, expect, it } from 'vitest';
import { packState, startModel } from '../../../../shared/planner/decide/model-state.ts';
import { type DecisionRecord, MemoryPlannerStore, readStart } from '../../../../shared/planner/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { signal } = new AbortController();

function decisionOf(decisionId: number, decode: number, decidedAtMs: number): DecisionRecord {
  const common = { status: 'PENDING', reason: 'one waits', isAdvisory: false, configHash: 'x', figures: {} } as const;
  return { ...common, decisionId, decidedAtMs, targets: { decode }, previous: { decode: 0 }, problem: 'no capacity' };
}

describe('the start of a model as its planner knows it', () => {
  it('has the decision that wants workers, and the machines with their phases', async () => {
    const clock = new VirtualClock();
    const store = new MemoryPlannerStore(clock);
    const nowMs = clock.wallMs();
    expect(await readStart(store, 'ns#m', nowMs, signal)).toBeUndefined();
    const state = packState({ ...startModel(nowMs / 1000), hosts: { 'i-1': ['weights', nowMs / 1000 + 7.25] } });
    await store.commit('ns#m', { version: 0, state, decision: decisionOf(0, 1, nowMs) }, signal);
    expect(await readStart(store, 'ns#m', nowMs, signal)).toEqual({
      decidedAtMs: nowMs,
      problem: 'no capacity',
      hosts: [{ instanceId: 'i-1', phase: 'weights', sinceMs: nowMs + 7250 }],
    });
    await store.commit('ns#m', { version: 1, state, decision: decisionOf(1, 0, nowMs + 1) }, signal);
    expect(await readStart(store, 'ns#m', nowMs, signal)).toMatchObject({ decidedAtMs: undefined, problem: undefined });
  });

  it('has the decision that a `stator local` has kept, whose state is not stored', async () => {
    const clock = new VirtualClock();
    const store = new MemoryPlannerStore(clock);
    const nowMs = clock.wallMs();
    await store.commit('ns#m', { version: 0, state: 'next 7', decision: decisionOf(0, 1, nowMs) }, signal);
    const known = { decidedAtMs: nowMs, problem: 'no capacity', hosts: [] };
    expect(await readStart(store, 'ns#m', nowMs, signal)).toEqual(known);
  });
});
