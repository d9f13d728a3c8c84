import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/index.ts';
import { RendezvousShare } from '../../../shared/scheduler/index.ts';

function tableOf(workers: number): RankTable {
  const ranks = new RankTable();
  for (let worker = 0; worker < workers; worker++) ranks.intern(worker.toString(16), 0);
  return ranks;
}

function shares(ranks: RankTable, routerIds: readonly string[]): readonly RendezvousShare[] {
  return routerIds.map((id) => {
    const share = new RendezvousShare(ranks, id);
    share.setOthers(routerIds);
    return share;
  });
}

describe('the shares of several routers', () => {
  it('cover every rank exactly once', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 64 }), (routers, workers) => {
        const all = shares(
          tableOf(workers),
          Array.from({ length: routers }, (_, at) => `router-${at}`),
        );
        for (let rank = 0; rank < workers; rank++) {
          expect(all.filter((share) => share.isOwn(rank))).toHaveLength(1);
        }
      }),
    );
  });

  it('are about even', () => {
    const all = shares(tableOf(1000), ['a', 'b', 'c', 'd']);
    for (const share of all) {
      const own = Array.from({ length: 1000 }, (_, rank) => share.isOwn(rank)).filter(Boolean).length;
      expect(own).toBeGreaterThan(200);
      expect(own).toBeLessThan(300);
    }
  });

  it('change only by what a router takes with it', () => {
    const ranks = tableOf(200);
    const [a, b, c] = shares(ranks, ['a', 'b', 'c']) as [RendezvousShare, RendezvousShare, RendezvousShare];
    const before = Array.from({ length: 200 }, (_, rank) => [a.isOwn(rank), b.isOwn(rank), c.isOwn(rank)]);
    a.setOthers(['b']);
    b.setOthers(['a']);
    for (let rank = 0; rank < 200; rank++) {
      const [wasA, wasB, wasC] = before[rank] ?? [];
      if (wasC !== true) expect([a.isOwn(rank), b.isOwn(rank)]).toEqual([wasA, wasB]);
      else expect(a.isOwn(rank)).not.toBe(b.isOwn(rank));
    }
  });

  it('are all ranks if there is only one router', () => {
    const share = new RendezvousShare(tableOf(3), 'only');
    expect([0, 1, 2].every((rank) => share.isOwn(rank))).toBe(true);
  });

  it('follow a rank number that is given to another worker', () => {
    const ranks = new RankTable();
    const [a, b] = shares(ranks, ['a', 'b']) as [RendezvousShare, RendezvousShare];
    for (let worker = 0; worker < 50; worker++) {
      const rank = ranks.intern(worker.toString(16), 0);
      expect(a.isOwn(rank)).not.toBe(b.isOwn(rank));
      ranks.drop(rank);
      ranks.recycle(rank);
    }
  });
});
