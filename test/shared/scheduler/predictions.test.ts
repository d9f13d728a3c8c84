import { describe, expect, it } from 'vitest';
import { BlockIndex, type PrefixIndex, predictingIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { Scheduler } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { promptTokens, worker } from './pool.ts';

/** Remembers whole prompts by rank: enough to see who is told what. */
class RememberedPrompts implements PrefixIndex {
  readonly #ranks: RankTable;
  readonly capacities = new Map<number, number | undefined>();
  readonly running = new Set<string>();
  readonly #blocks = new Map<number, Set<number>>();

  constructor(ranks: RankTable) {
    this.#ranks = ranks;
  }

  decided(requestId: string, rank: number, { sequence }: { sequence: Uint32Array }): void {
    this.running.add(requestId);
    const held = this.#blocks.get(rank) ?? new Set();
    for (let at = 0; at < sequence.length; at += 2) held.add(sequence[at]!);
    this.#blocks.set(rank, held);
  }

  freed(requestId: string): void {
    this.running.delete(requestId);
  }

  setCapacity(rank: number, blocks: number | undefined): void {
    this.capacities.set(rank, blocks);
  }

  removeRank(rank: number): void {
    this.#blocks.delete(rank);
    this.#ranks.recycle(rank);
  }

  match(...args: Parameters<PrefixIndex['match']>): void {
    this.raise(...args);
  }

  raise(...[{ sequence }, overlaps]: Parameters<PrefixIndex['match']>): void {
    for (const [rank, held] of this.#blocks) {
      let depth = 0;
      while (2 * depth < sequence.length && held.has(sequence[2 * depth]!)) depth++;
      if (depth <= overlaps.device[rank]!) continue;
      overlaps.touch(rank);
      overlaps.device[rank] = depth;
    }
  }

  blocksOf(rank: number): number {
    return this.#blocks.get(rank)?.size ?? 0;
  }
}

describe.each(['alone', 'beside events'] as const)('predictions %s', (kind) => {
  function pool() {
    const ranks = new RankTable();
    const predictions = new RememberedPrompts(ranks);
    const index = kind === 'alone' ? predictions : predictingIndex(new BlockIndex({ ranks }), predictions);
    const scheduler = new Scheduler({
      config: kvRouterConfig({ queueThreshold: undefined }),
      blockSizeTokens: 16,
      ranks,
      index,
      clock: new VirtualClock(),
      random: seededRandom(1),
    });
    scheduler.setWorkers([worker('a', { totalKvBlocks: 100 }), worker('b')]);
    return { ranks, predictions, scheduler };
  }

  const siblings = (id: string) => ({
    id,
    promptTokens: 1600,
    hashes: hashBlocks(promptTokens(1600), { blockSizeTokens: 16 }),
  });

  it('bring a sibling to the worker of the first one, and end with the request', () => {
    const { predictions, scheduler, ranks } = pool();
    const chosen: string[] = [];
    const outcome = { decided: (decision: { workerId: string }) => chosen.push(decision.workerId), rejected: () => {} };
    scheduler.submit(siblings('r1'), outcome);
    scheduler.prefillDone('r1');
    scheduler.submit(siblings('r2'), outcome);
    expect(chosen[1]).toBe(chosen[0]);
    expect(predictions.running).toEqual(new Set(['r1', 'r2']));
    scheduler.free('r1');
    expect(predictions.running).toEqual(new Set(['r2']));
    if (kind === 'alone') expect(predictions.capacities.get(ranks.find('a', 0)!)).toBe(100);
  });

  it('go with their worker, whose number another may get', () => {
    const { scheduler, ranks, predictions } = pool();
    const before = ranks.find('a', 0)!;
    scheduler.submit({ ...siblings('r'), pinned: { workerId: 'a' } }, { decided: () => {}, rejected: () => {} });
    expect(predictions.blocksOf(before)).toBe(100);
    scheduler.setWorkers([worker('b')]);
    expect(predictions.blocksOf(before)).toBe(0);
    if (kind === 'beside events') return; // the index of events gives the number back in its own time
    scheduler.setWorkers([worker('b'), worker('c')]);
    expect(ranks.find('c', 0)).toBe(before);
  });
});
