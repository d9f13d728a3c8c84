import fc from 'fast-check';
import { describe, it } from 'vitest';
import { BlockIndex, type StoredRun } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import type { StorageTier } from '../../../shared/block-index/types.ts';
import { chainHashes } from '../../../shared/tokens/index.ts';
import { loadBlockIndex } from '../../support/router/load-block-index.ts';
import { same } from '../../support/same.ts';
import { type IndexContract, NaiveBlockIndex } from './naive-block-index.ts';
import { dumpOf } from './prompts.ts';

const TIERS: readonly StorageTier[] = ['device', 'host_pinned', 'disk', 'external'];
const RANKS = 6;
/** Blocks that a removal looks at by itself: none, so that all goes in slices; a few; as in production. */
const LOOKS: readonly (number | undefined)[] = [0, 0, 1, 3, undefined];

/** How an engine names a block: as we do, by a function of content, by its own, or by too few names. */
type Naming = 'ours' | 'shared' | 'own' | 'few';

type Step =
  | {
      readonly kind: 'stored';
      readonly rank: number;
      readonly tier: number;
      readonly naming: Naming;
      /** Tokens hashes of the prompt; the first `from` are the parents. */
      readonly content: readonly number[];
      readonly from: number;
    }
  | {
      readonly kind: 'removed';
      readonly rank: number;
      readonly tier: number;
      readonly naming: Naming;
      readonly content: readonly number[];
      readonly order: readonly number[];
    }
  /** Stores so many blocks below the same one, each the only one of its event. */
  | {
      readonly kind: 'fanned';
      readonly rank: number;
      readonly tier: number;
      readonly naming: Naming;
      readonly content: readonly number[];
      readonly branches: number;
    }
  | { readonly kind: 'cleared' | 'removeRank'; readonly rank: number }
  | { readonly kind: 'housekeep'; readonly blocks: number }
  | { readonly kind: 'replay' }
  /** Through a snapshot; the events come between its chunks, so they are not in it. */
  | { readonly kind: 'reload'; readonly events: readonly Step[] };

const naming = fc.constantFrom<Naming>('ours', 'ours', 'shared', 'own', 'few');
const content = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 6 });
const target = { rank: fc.nat(RANKS - 1), tier: fc.constantFrom(0, 0, 0, 1, 2, 3), naming, content };
const event: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ kind: fc.constant('stored' as const), ...target, from: fc.nat(4) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('removed' as const),
      ...target,
      order: fc.array(fc.nat(6), { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('cleared', 'removeRank'), rank: fc.nat(RANKS - 1) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('housekeep' as const), blocks: fc.nat(20) }) },
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 20, arbitrary: event },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('replay' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('reload' as const), events: fc.array(event, { maxLength: 4 }) }),
  },
);

/** Prompts of many conversations that go on from few blocks, and removals from the middle of them. */
const wideContent = fc
  .tuple(fc.constantFrom([0], [0, 0], [0, 0], [0, 1], [1, 0, 0]), fc.array(fc.nat(8), { maxLength: 4 }))
  .map(([shared, own]) => [...shared, ...own]);
const wideTarget = {
  rank: fc.nat(RANKS - 1),
  tier: fc.constantFrom(0, 0, 0, 0, 0, 1, 1, 2, 3),
  naming: fc.constantFrom<Naming>('ours', 'ours', 'ours', 'ours', 'shared', 'own'),
  content: wideContent,
};
const wideStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('fanned' as const), ...wideTarget, branches: fc.nat(30) }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('stored' as const), ...wideTarget, from: fc.nat(6) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('removed' as const),
      ...wideTarget,
      order: fc.array(fc.nat(3), { minLength: 1, maxLength: 4 }), // from the start rather than the end
    }),
  },
  { weight: 1, arbitrary: step },
);

/** Much goes with one block, and some of it is stored again at once. */
const churn: fc.Arbitrary<readonly Step[]> = fc
  .record({
    ...wideTarget,
    branches: fc.integer({ min: 5, max: 60 }),
    again: fc.nat(70),
    from: fc.nat(2),
    at: fc.nat(2),
  })
  .chain(({ branches, again, from, at, ...of }) => {
    const fan = { ...of, kind: 'fanned' as const, branches };
    const inner = { ...fan, content: [...of.content, 3], branches: branches >> 2 };
    const gone = { ...of, kind: 'removed' as const, order: [at % of.content.length] };
    const back = { ...of, kind: 'stored' as const, content: [...of.content, again], from };
    const deep = { ...back, content: [...of.content, 3, again >> 2] };
    return fc
      .shuffledSubarray<Step>([back, deep, { kind: 'replay' }, { kind: 'reload', events: [back, gone] }, gone])
      .map((rest) => [fan, inner, gone, ...rest]);
  });
const wideSteps = fc
  .array(fc.oneof({ weight: 3, arbitrary: wideStep.map((each) => [each]) }, { weight: 1, arbitrary: churn }), {
    minLength: 3,
    maxLength: 30,
  })
  .map((each) => each.flat());

describe('block index against a model on maps', () => {
  it('agrees after every event', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 14 }), fc.constantFrom(...LOOKS), (steps, looksMax) => {
        const { index, model } = run(steps, looksMax, () => {});
        same(matches(index), matches(model));
        agree(index, model);
      }),
      { numRuns: 10_000 },
    );
  }, 400_000);

  it('agrees on wide trees with removals from the middle, whatever is left to do', () => {
    fc.assert(
      fc.property(wideSteps, fc.constantFrom(...LOOKS), fc.boolean(), (steps, looksMax, isWatched) => {
        const { index, model } = run(steps, looksMax, (present, naive) => {
          if (isWatched) same(matches(present), matches(naive)); // asking changes nothing
        });
        same(matches(index), matches(model));
        agree(index, model);
      }),
      { numRuns: 1500 },
    );
  }, 400_000);
});

/** Everything in turn with both; the index agrees with the model in what it says of each event. */
function run(
  steps: readonly Step[],
  looksMax: number | undefined,
  onStep: (index: BlockIndex, model: NaiveBlockIndex) => void,
): { readonly index: BlockIndex; readonly model: NaiveBlockIndex } {
  const more = looksMax === undefined ? {} : { looksMax };
  let index: BlockIndex = new BlockIndex({ ranks: rankTable(), ...more });
  const model = new NaiveBlockIndex(rankTable());
  for (const each of steps) {
    if (each.kind === 'replay') index = replayed(index, more);
    else if (each.kind === 'reload') index = reloaded(index, each.events, more);
    else same(apply(index, each), apply(model, each));
    onStep(index, model);
  }
  return { index, model };
}

/** In what is held, as dumps tell it at once and counts do when all is done. */
function agree(index: BlockIndex, model: NaiveBlockIndex): void {
  same(dumps(index), dumps(model));
  while (index.housekeep());
  same(holdings(index), holdings(model));
  same(index.blockCount, model.blockCount);
}

function rankTable(): RankTable {
  const ranks = new RankTable();
  for (let rank = 0; rank < RANKS; rank++) ranks.intern(rank.toString(16), 0);
  return ranks;
}

/** What the ranks hold, told to an empty index. */
function replayed(index: BlockIndex, more: { readonly looksMax?: number }): BlockIndex {
  const copy = new BlockIndex({ ranks: rankTable(), ...more });
  for (let rank = 0; rank < RANKS; rank++) {
    for (const { tier, parent, blockHashes, tokensHashes } of dumpOf(index, rank)) {
      same(copy.stored(rank, tier, parent, blockHashes, tokensHashes), 'ok');
    }
  }
  return copy;
}

/** Through a snapshot, while `events` go on. */
function reloaded(index: BlockIndex, events: readonly Step[], more: { readonly looksMax?: number }): BlockIndex {
  const before = dumps(index);
  const chunks: Uint8Array[] = [];
  let at = 0;
  for (const chunk of index.snapshot()) {
    chunks.push(chunk);
    const event = events[at++];
    if (event !== undefined) apply(index, event);
  }
  const bytes = Buffer.concat(chunks);
  const loaded = loadBlockIndex(Buffer.from(bytes), { ranks: rankTable(), ...more });
  same(dumps(loadBlockIndex(bytes, { ranks: rankTable() })), before);
  return loaded;
}

function apply(index: IndexContract, step: Step): unknown {
  switch (step.kind) {
    case 'stored': {
      const hashes = name(step.naming, step.rank, step.content);
      const from = Math.min(step.from, step.content.length - 1);
      const parent = from === 0 ? undefined : ([hashes[2 * from - 2] ?? 0, hashes[2 * from - 1] ?? 0] as const);
      const locals = local(step.content).subarray(2 * from);
      return index.stored(step.rank, TIERS[step.tier] as StorageTier, parent, hashes.subarray(2 * from), locals);
    }
    case 'removed': {
      const hashes = name(step.naming, step.rank, step.content);
      const listed = step.order
        .filter((at) => at < step.content.length)
        .flatMap((at) => [hashes[2 * at], hashes[2 * at + 1]]);
      return index.removed(step.rank, TIERS[step.tier] as StorageTier, Uint32Array.from(listed as number[]));
    }
    case 'fanned': {
      const statuses = new Set<unknown>();
      for (let branch = 0; branch < step.branches; branch++) {
        const content = [...step.content, branch];
        statuses.add(apply(index, { ...step, kind: 'stored', content, from: step.content.length }));
      }
      return statuses;
    }
    case 'cleared':
      return index.cleared(step.rank);
    case 'removeRank':
      return index.removeRank(step.rank);
    case 'housekeep':
      return void index.housekeep(step.blocks);
    default:
      throw new Error(`${step.kind} is no event`);
  }
}

const LARGEST = [0xffff_ffff, 0xffff_ffff] as const;

/** Hash 0 and the largest one are among them. */
function local(content: readonly number[]): Uint32Array {
  const halves = new Uint32Array(2 * content.length);
  for (const [at, each] of content.entries()) halves.set(each === 2 ? LARGEST : [each, 0], 2 * at);
  return halves;
}

function name(naming: Naming, rank: number, content: readonly number[]): Uint32Array {
  const ours = chainHashes(local(content));
  switch (naming) {
    case 'ours':
      return ours;
    case 'shared':
      return ours.map((half) => (half ^ 0x5555_5555) >>> 0);
    case 'own':
      return ours.map((half) => (half + 7 * (rank + 1)) >>> 0);
    case 'few':
      return ours.map((half, at) => (at % 2 === 0 ? half % 3 : 0));
  }
}

/** Most prompts of few blocks, and some of more. */
const PROMPTS = [0, 1, 2]
  .flatMap((a) => [0, 1, 2].flatMap((b) => [0, 1, 2, 7].flatMap((c) => [0, 1, 5].map((d) => local([a, b, c, d, 1])))))
  .map((hashes) => ({ local: hashes, sequence: chainHashes(hashes) }));

function matches(index: IndexContract): string {
  const overlaps = new Overlaps(RANKS);
  return PROMPTS.map((hashes) => {
    index.match(hashes, overlaps);
    const found = [...overlaps.ranks.subarray(0, overlaps.count)].sort();
    return found
      .map((rank) => [rank, overlaps.device[rank], overlaps.host[rank], overlaps.disk[rank]].join())
      .join(' ');
  }).join('\n');
}

/** What the ranks hold, block by block. */
function dumps(index: IndexContract): unknown {
  return Array.from({ length: RANKS }, (_, rank) => spell(dumpOf(index, rank)));
}

/** The same with their counts, told apart from how it is dumped. */
function holdings(index: IndexContract): unknown {
  return Array.from({ length: RANKS }, (_, rank) => ({
    blocks: index.blocksOf(rank),
    names: spell(dumpOf(index, rank)),
  }));
}

/** One line a block, tier and name; a parent is told by its path. */
function spell(runs: readonly StoredRun[]): string[] {
  const paths = new Map<string, string>();
  const lines: string[] = [];
  for (const { tier, parent, blockHashes, tokensHashes } of runs) {
    let path = parent === undefined ? '' : (paths.get(parent.join()) ?? 'unknown');
    for (let at = 0; at < blockHashes.length; at += 2) {
      path += `/${tokensHashes.subarray(at, at + 2).join()}`;
      const hash = blockHashes.subarray(at, at + 2).join();
      paths.set(hash, path);
      lines.push(`${tier} ${path} ${hash}`);
    }
  }
  return lines.sort();
}
