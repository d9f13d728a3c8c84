import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ActiveLoad, type LoadEntry } from '../../../../shared/scheduler/load/active-load.ts';
import { hashesOf } from './prompt-hashes.ts';

const RANKS = 4;
const BLOCK = 16;

function entry(id: string, rank: number, hashes: Uint32Array | undefined, more: Partial<LoadEntry> = {}): LoadEntry {
  const promptTokens = BLOCK * ((hashes?.length ?? 0) / 2);
  return { id, rank, promptTokens, hashes, isReusing: true, prefillTokens: 0, ...more };
}

function load(expiryMs = 300_000, blockSizeTokens = BLOCK): ActiveLoad {
  return new ActiveLoad(RANKS, { blockSizeTokens, expiryMs });
}

/** The rules of load in sets and sums. */
class NaiveLoad {
  readonly requests = new Map<string, { entry: LoadEntry; prefillTokens: number; ownBlocks: number; blocks: number }>();

  add(request: LoadEntry): boolean {
    if (this.requests.has(request.id)) return false;
    const hashed = (request.hashes?.length ?? 0) / 2;
    this.requests.set(request.id, {
      entry: request,
      prefillTokens: request.prefillTokens,
      ownBlocks: request.isReusing ? 0 : hashed,
      blocks: Math.ceil(request.promptTokens / BLOCK),
    });
    return true;
  }

  produced(id: string, outputTokens: number): void {
    const request = this.requests.get(id);
    if (request === undefined || request.entry.hashes === undefined) return;
    const blocks = Math.ceil((request.entry.promptTokens + outputTokens) / BLOCK);
    if (blocks <= request.blocks) return;
    request.blocks = blocks;
    request.ownBlocks++;
  }

  #heldBy(rank: number): Set<string> {
    const held = new Set<string>();
    for (const { entry: request } of this.requests.values()) {
      if (request.rank !== rank || request.hashes === undefined || !request.isReusing) continue;
      for (let at = 0; at < request.hashes.length; at += 2) held.add(`${request.hashes[at]} ${request.hashes[at + 1]}`);
    }
    return held;
  }

  blocks(rank: number): number {
    let own = 0;
    for (const { entry: request, ownBlocks } of this.requests.values()) if (request.rank === rank) own += ownBlocks;
    return own + this.#heldBy(rank).size;
  }

  depth(rank: number, hashes: Uint32Array): number {
    const held = this.#heldBy(rank);
    let depth = 0;
    while (2 * depth < hashes.length && held.has(`${hashes[2 * depth]} ${hashes[2 * depth + 1]}`)) depth++;
    return depth;
  }

  prefill(rank: number): number {
    let sum = 0;
    for (const request of this.requests.values()) if (request.entry.rank === rank) sum += request.prefillTokens;
    return sum;
  }

  count(rank: number): number {
    return [...this.requests.values()].filter(({ entry: request }) => request.rank === rank).length;
  }
}

const pathArb = fc
  .array(fc.integer({ min: 0, max: 2 }), { maxLength: 40 })
  .map((steps) => steps.map((step) => step >> 1));
const stepArb = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      id: fc.integer({ min: 0, max: 30 }),
      rank: fc.integer({ min: 0, max: RANKS - 1 }),
      path: pathArb,
      isReusing: fc.boolean(),
      prefillTokens: fc.integer({ min: 0, max: 500 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('free' as const), id: fc.integer({ min: 0, max: 30 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('first' as const), id: fc.integer({ min: 0, max: 30 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('produced' as const),
      id: fc.integer({ min: 0, max: 30 }),
      tokens: fc.integer({ min: 0, max: 200 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('rank gone' as const), rank: fc.integer({ min: 0, max: RANKS - 1 }) }),
  },
);

describe('load of ranks', () => {
  it('equals what sets and sums say after any sequence of requests', () => {
    fc.assert(
      fc.property(fc.array(stepArb, { maxLength: 80 }), pathArb, (steps, asked) => {
        const real = load();
        const naive = new NaiveLoad();
        steps.forEach((step, nowMs) => {
          if (step.kind === 'add') {
            const { rank, isReusing, prefillTokens } = step;
            const request = entry(`r${step.id}`, rank, hashesOf(step.path), { isReusing, prefillTokens });
            expect(real.add(request, nowMs)).toBe(naive.add(request));
          } else if (step.kind === 'free') {
            expect(real.free(`r${step.id}`, nowMs)).toBe(naive.requests.delete(`r${step.id}`));
          } else if (step.kind === 'first') {
            real.prefillDone(`r${step.id}`, nowMs);
            const request = naive.requests.get(`r${step.id}`);
            if (request !== undefined) request.prefillTokens = 0;
          } else if (step.kind === 'produced') {
            real.produced(`r${step.id}`, step.tokens);
            naive.produced(`r${step.id}`, step.tokens);
          } else {
            real.freeRank(step.rank, nowMs);
            for (const [id, request] of naive.requests) if (request.entry.rank === step.rank) naive.requests.delete(id);
          }
        });
        const hashes = hashesOf(asked);
        real.uses.matchDepths(hashes);
        for (let rank = 0; rank < RANKS; rank++) {
          expect(real.activeBlocks[rank]).toBe(naive.blocks(rank));
          expect(real.uses.depths[rank]).toBe(naive.depth(rank, hashes));
          expect(real.prefillTokensAt(rank, 1e6)).toBe(naive.prefill(rank));
          expect(real.requests[rank]).toBe(naive.count(rank));
        }
      }),
      { numRuns: 300 },
    );
  });

  it('counts a shared prefix once: 2, 3, 3 and 0 blocks (case 30)', () => {
    const real = load();
    real.add(entry('r1', 0, hashesOf([1, 2])), 0);
    expect(real.activeBlocks[0]).toBe(2);
    real.add(entry('r2', 0, hashesOf([1, 2, 3])), 0);
    expect(real.activeBlocks[0]).toBe(3);
    real.free('r1', 0);
    expect(real.activeBlocks[0]).toBe(3);
    real.free('r2', 0);
    expect(real.activeBlocks[0]).toBe(0);
  });

  it('refuses a second request of one id and leaves the load as it is (case 31)', () => {
    const real = load();
    real.add(entry('r1', 0, hashesOf([1, 2]), { prefillTokens: 32 }), 0);
    expect(real.add(entry('r1', 1, hashesOf([5]), { prefillTokens: 16 }), 0)).toBe(false);
    expect([...real.activeBlocks]).toEqual([2, 0, 0, 0]);
    expect([...real.prefillSum]).toEqual([32, 0, 0, 0]);
  });

  it('weighs blocks by how far the expected output is: 7 blocks count 6 at 13 of 64 tokens', () => {
    const real = load();
    const request = { promptTokens: 100, expectedOutputTokens: 64 };
    real.add(entry('r1', 0, hashesOf([1, 2, 3, 4, 5, 6]), request), 0);
    real.produced('r1', 12);
    expect(real.activeBlocks[0]).toBe(6);
    real.produced('r1', 13);
    expect(real.activeBlocks[0]).toBe(6); // 7 × 0.796875 = 5.578
    real.add(entry('r2', 1, hashesOf([1, 2, 3, 4, 5, 6]), { promptTokens: 100 }), 0);
    real.produced('r2', 13);
    expect(real.activeBlocks[1]).toBe(7);
    real.free('r1', 0);
    expect(real.activeBlocks[0]).toBe(0);
  });

  it('lightens only what no other request runs on, and forgets it with the blocks', () => {
    const real = load();
    real.add(entry('r1', 0, hashesOf([1, 2, 3, 4]), { promptTokens: 64, expectedOutputTokens: 10 }), 0);
    real.add(entry('r2', 0, hashesOf([1, 2]), { promptTokens: 32 }), 0);
    real.produced('r1', 10); // a fifth block; three of its own, two shared
    expect(real.activeBlocks[0]).toBe(2);
    real.free('r1', 0);
    expect(real.activeBlocks[0]).toBe(2);
    real.free('r2', 0);
    real.add(entry('r3', 0, hashesOf([1, 2, 3, 4]), { promptTokens: 64 }), 0);
    expect(real.activeBlocks[0]).toBe(4);
  });

  it('counts no prefill of a request that is taken back, as its worker computed nothing of it', () => {
    const loads = load();
    const more = { promptTokens: 1000, prefillTokens: 1000 };
    loads.add(entry('decoding', 1, undefined, more), 0);
    loads.prefillDone('decoding', 10);
    loads.add(entry('held', 1, undefined, more), 20);
    loads.takeBack('held', 30);
    loads.add(entry('held', 1, undefined, more), 30);
    expect(loads.decodeSpanOf('decoding', 40)?.prefilledTokens).toBe(0);
    loads.prefillDone('held', 50);
    expect(loads.decodeSpanOf('decoding', 60)?.prefilledTokens).toBe(1000);
    expect(loads.size).toBe(2);
  });

  it('ends requests that were never freed, oldest first', () => {
    const real = load(1000);
    real.add(entry('old', 0, hashesOf([1])), 0);
    real.add(entry('young', 0, hashesOf([2])), 500);
    expect(real.expire(999)).toEqual([]);
    expect(real.expire(1000)).toEqual(['old']);
    expect(real.activeBlocks[0]).toBe(1);
    expect(real.expire(1500)).toEqual(['young']);
    expect(real.size).toBe(0);
  });
});

describe('prefills whose length is predicted', () => {
  const long = { prefillTokens: 1000, prefillMs: 10_000 };
  const short = { prefillTokens: 600, prefillMs: 6000 };

  it('shrink from the oldest on, what overruns counts against the next', () => {
    const real = load();
    real.add(entry('r1', 0, undefined, long), 0);
    real.add(entry('r2', 0, undefined, short), 0);
    expect(real.prefillTokensAt(0, 0)).toBe(1600);
    expect(real.prefillTokensAt(0, 4000)).toBe(1200);
    expect(real.prefillTokensAt(0, 12_000)).toBe(400);
    real.prefillDone('r1', 12_000);
    expect(real.prefillTokensAt(0, 12_000)).toBe(600);
    expect(real.prefillTokensAt(0, 15_000)).toBe(300);
  });

  it('shrink only by the anchor while another has no prediction', () => {
    const real = load();
    real.add(entry('r1', 0, undefined, long), 0);
    real.add(entry('r2', 0, undefined, { prefillTokens: 600 }), 0);
    expect(real.prefillTokensAt(0, 4000)).toBe(1200);
    expect(real.prefillTokensAt(0, 12_000)).toBe(600);
    real.prefillDone('r1', 12_000);
    expect(real.prefillTokensAt(0, 90_000)).toBe(600);
  });

  it('do not shrink the load of others, whose prefills are not predicted', () => {
    const real = load();
    real.add(entry('r1', 0, undefined, long), 0);
    real.setUnattributed(0, { requests: 1, decodeBlocks: 0, prefillTokens: 500 });
    expect(real.prefillTokensAt(0, 4000)).toBe(600 + 500);
    expect(real.prefillTokensAt(0, 12_000)).toBe(500);
    real.prefillDone('r1', 12_000);
    expect(real.prefillTokensAt(0, 90_000)).toBe(500);
  });

  it('equal the rules written down plainly, whatever comes in whatever order', () => {
    const step = fc.record({
      rank: fc.nat(1),
      tokens: fc.integer({ min: 1, max: 4000 }),
      prefillMs: fc.option(fc.nat(9000), { nil: undefined }),
      ends: fc.nat(5),
      unattributedTokens: fc.option(fc.nat(900), { nil: undefined }),
      waitMs: fc.nat(4000),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const real = load();
        const naive = new NaivePrefills();
        let nowMs = 0;
        steps.forEach(({ rank, tokens, prefillMs, ends, unattributedTokens, waitMs }, at) => {
          real.add(entry(`r${at}`, rank, undefined, { prefillTokens: tokens, prefillMs }), nowMs);
          naive.add({ id: `r${at}`, rank, tokens, prefillMs }, nowMs);
          nowMs += waitMs;
          if (unattributedTokens !== undefined) {
            real.setUnattributed(rank, { requests: 1, decodeBlocks: 0, prefillTokens: unattributedTokens });
            naive.unattributed[rank] = unattributedTokens;
          }
          if (ends < at) {
            real.prefillDone(`r${at - ends}`, nowMs);
            naive.end(`r${at - ends}`, nowMs);
          }
          for (const each of [0, 1]) expect(real.prefillTokensAt(each, nowMs)).toBe(naive.tokensAt(each, nowMs));
        });
      }),
    );
  });

  it('tell how long the oldest took since it became that', () => {
    const real = load();
    real.add(entry('r1', 0, undefined, long), 0);
    real.add(entry('r2', 0, undefined, short), 100);
    expect(real.prefillDone('r1', 3000)).toMatchObject({ tokens: 1000, elapsedMs: 3000 });
    expect(real.prefillDone('r1', 3500)).toBeUndefined();
    expect(real.prefillDone('r2', 5000)).toMatchObject({ tokens: 600, elapsedMs: 2000 });
  });
});

interface NaivePrefill {
  readonly id: string;
  readonly rank: number;
  readonly tokens: number;
  readonly prefillMs: number | undefined;
}

/** The newest where all is predicted, else the older one for the oldest alone. */
class NaivePrefills {
  readonly unattributed = [0, 0];
  readonly #lists: NaivePrefill[][] = [[], []];
  readonly #anchoredMs = [0, 0];

  add(prefill: NaivePrefill, nowMs: number): void {
    const list = this.#lists[prefill.rank]!;
    list.push(prefill);
    if (list.length === 1) this.#anchoredMs[prefill.rank] = nowMs;
  }

  end(id: string, nowMs: number): void {
    this.#lists.forEach((list, rank) => {
      const at = list.findIndex((prefill) => prefill.id === id);
      if (at === -1) return;
      list.splice(at, 1);
      if (at === 0) this.#anchoredMs[rank] = nowMs;
    });
  }

  tokensAt(rank: number, nowMs: number): number {
    const list = this.#lists[rank]!;
    const unattributed = this.unattributed[rank]!;
    const [oldest, ...others] = list;
    if (oldest === undefined) return unattributed;
    const elapsed = nowMs - this.#anchoredMs[rank]!;
    const waiting = others.reduce((sum, { tokens }) => sum + tokens, 0) + unattributed;
    const { tokens, prefillMs: expected } = oldest;
    if (unattributed === 0 && list.every(({ prefillMs }) => prefillMs !== undefined)) {
      return expected === 0 ? waiting : Math.max(0, waiting + tokens - Math.floor((tokens * elapsed) / expected!));
    }
    if (expected === undefined) return waiting + tokens;
    return waiting + (expected === 0 ? 0 : Math.ceil(tokens * Math.max(0, 1 - elapsed / expected)));
  }
}
