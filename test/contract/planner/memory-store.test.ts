import { describe, expect, it } from 'vitest';
import { MemoryPlannerStore } from '../../../shared/planner/store/memory-store.ts';
import { describePlannerStore, someDecision } from './store.contract.ts';

const NOW = 1_800_000_000_000;
const NEVER = new AbortController().signal;

describePlannerStore('memory', async () => {
  const store = new MemoryPlannerStore({ wallMs: () => NOW });
  return [store, store];
});

describe('the memory store', () => {
  it('forgets decisions after a week, and keeps 2,000 at most', async () => {
    let nowMs = NOW;
    const store = new MemoryPlannerStore({ wallMs: () => nowMs });
    for (let at = 0; at < 2005; at++) {
      nowMs = NOW + at * 1000;
      await store.commit('g', { version: at, state: '', decision: someDecision(at) }, NEVER);
    }
    expect(await store.decision('g', 4, NEVER)).toBeUndefined();
    expect(await store.decision('g', 5, NEVER)).toBeDefined();
    nowMs = NOW + 8 * 86_400_000;
    await store.commit('g', { version: 2005, state: '' }, NEVER);
    expect(await store.decisions('g', { sinceMs: 0 }, NEVER)).toEqual([]);
  });
});
