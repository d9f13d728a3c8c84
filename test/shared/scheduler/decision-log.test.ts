import { describe, expect, it } from 'vitest';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { Candidates } from '../../../shared/scheduler/cost.ts';
import { DecisionLog, readRow } from '../../../shared/scheduler/decision-log.ts';

const WEIGHTS = {} as Parameters<DecisionLog['add']>[0]['weights'];

function choice(requestId: string, ranks: number): Parameters<DecisionLog['add']>[0] {
  const perRank = new Float64Array(ranks);
  return {
    requestId,
    blocks: 1,
    weights: WEIGHTS,
    costModel: 'stator',
    waitedMs: 0,
    chosenAt: 0,
    reason: 'only',
    inputs: {
      blockSizeTokens: 16,
      promptTokens: 16,
      hashedBlocks: 1,
      overlaps: new Overlaps(ranks),
      activeBlocks: perRank,
      sharedDepths: new Uint32Array(ranks),
      activeRequests: perRank,
      sharedRanges: undefined,
    },
  } as Parameters<DecisionLog['add']>[0];
}

function candidates(count: number, cost: number): Candidates {
  const made = new Candidates();
  for (let rank = 0; rank < count; rank++) made.add(rank);
  made.costs.fill(cost, 0, count);
  return made;
}

describe('the log of decisions', () => {
  it('keeps the last ones, and of one request the last', () => {
    const log = new DecisionLog(3);
    for (const [at, id] of ['a', 'b', 'c', 'b', 'd'].entries()) log.add(choice(id, 2), candidates(2, at));
    expect(log.find('a')).toBeUndefined();
    const costs = ['b', 'c', 'd'].map((id) => readRow(log.find(id)!, 1).cost);
    expect(costs).toEqual([3, 2, 4]);
  });

  it('keeps fewer decisions if each weighed many workers', () => {
    const log = new DecisionLog(1000);
    for (let at = 0; at < 40; at++) log.add(choice(`${at}`, 8192), candidates(8192, at));
    expect(log.find('31')).toBeUndefined();
    expect(readRow(log.find('32')!, 8191)).toMatchObject({ rank: 8191, cost: 32 });
    expect(log.find('39')).toBeDefined();
  });

  it('keeps none if the bound is 0', () => {
    expect(new DecisionLog(0).isOn).toBe(false);
  });
});
