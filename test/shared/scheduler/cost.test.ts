import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { Candidates, type CostInputs, fillDynamoCosts } from '../../../shared/scheduler/cost.ts';
import { explanationOf, type RecordedChoice, recordOf } from '../../../shared/scheduler/decision-log.ts';
import type { ExplanationRecord } from '../../../shared/scheduler/index.ts';
import { RankSpeeds } from '../../../shared/scheduler/load/rank-speeds.ts';
import {
  addShareCosts,
  addUnseenCosts,
  fillStatorCosts,
  STATOR_TERMS,
  type StatorFacts,
} from '../../../shared/scheduler/stator-cost.ts';

const RANKS_MAX = 6;
const BLOCKS_MAX = 64;

const weight = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 4, noNaN: true }));
const weights = fc.record({
  overlapScoreCredit: weight,
  overlapScoreCreditDecay: weight,
  prefillLoadScale: weight,
  routerTemperature: fc.constant(0),
  sharedCacheMultiplier: weight,
  assumeKvReuse: fc.boolean(),
  trackPrefillTokens: fc.boolean(),
  hostCacheHitWeight: weight,
  diskCacheHitWeight: weight,
  decodeActiveRequestWeight: weight,
  isDecodePool: fc.boolean(),
});

const blocks = fc.nat(BLOCKS_MAX);
/** What is known of one rank. */
const rank = fc.record({
  device: blocks,
  host: blocks,
  disk: blocks,
  prefillTokens: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 100_000, noNaN: true })),
  activeBlocks: fc.double({ min: 0, max: 10_000, noNaN: true }),
  activeRequests: fc.nat(100),
  sharedDepth: blocks,
  isOwn: fc.boolean(),
  contextTokens: fc.nat(1_000_000),
  requestsMax: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 1, max: 100 })),
  unseenTokens: fc.oneof(fc.constant(0), fc.nat(50_000)),
});

const decision = fc.record({
  weights,
  ranks: fc.array(rank, { minLength: 1, maxLength: RANKS_MAX }),
  blockSizeTokens: fc.constantFrom(1, 16, 64),
  promptTokens: fc.nat(BLOCKS_MAX * 64),
  hashedBlocks: blocks,
  sharedRanges: fc.option(fc.tuple(blocks, blocks, blocks, blocks).map(rangesOf), { nil: undefined }),
});
type Drawn = typeof decision extends fc.Arbitrary<infer Value> ? Value : never;

/** Two disjoint ranges, the first one before the second. */
function rangesOf(bounds: readonly number[]): readonly (readonly [number, number])[] {
  const [first = 0, second = 0, third = 0, fourth = 0] = bounds.toSorted((a, b) => a - b);
  return [
    [first, second],
    [third, fourth],
  ];
}

/** The costs of a decision by the formula that chooses, explained by the formula that operators read. */
function explained(costModel: RecordedChoice['costModel'], drawn: Drawn): ExplanationRecord {
  const { ranks, weights, ...prompt } = drawn;
  const overlaps = new Overlaps(ranks.length);
  const candidates = new Candidates();
  const table = new RankTable();
  for (const [at, { device, host, disk, prefillTokens }] of ranks.entries()) {
    table.intern(`${at}`, 0);
    candidates.add(at);
    candidates.prefillTokens[at] = prefillTokens;
    overlaps.touch(at);
    overlaps.device[at] = device;
    overlaps.host[at] = host;
    overlaps.disk[at] = disk;
  }
  const inputs: CostInputs = {
    ...prompt,
    overlaps,
    activeBlocks: Float64Array.from(ranks, ({ activeBlocks }) => activeBlocks),
    activeRequests: Float64Array.from(ranks, ({ activeRequests }) => activeRequests),
    sharedDepths: Uint32Array.from(ranks, ({ sharedDepth }) => sharedDepth),
  };
  if (costModel === 'dynamo') fillDynamoCosts(candidates, inputs, weights);
  else fillStator(candidates, inputs, drawn);
  const choice: RecordedChoice = {
    requestId: 'r',
    blocks: prompt.hashedBlocks,
    weights,
    costModel,
    waitedMs: 0,
    chosenAt: 0,
    reason: 'lowest-cost',
    inputs,
  };
  return explanationOf(recordOf(choice, candidates), table);
}

function fillStator(candidates: Candidates, inputs: CostInputs, { ranks, weights }: Drawn): void {
  const speeds = new RankSpeeds();
  speeds.reserve(ranks.length);
  const facts: StatorFacts = {
    contextTokens: Float64Array.from(ranks, ({ contextTokens }) => contextTokens),
    expectedOutputTokens: undefined,
    speeds,
    requestsMax: Float64Array.from(ranks, ({ requestsMax }) => requestsMax),
  };
  fillStatorCosts(candidates, inputs, facts, weights);
  addShareCosts(candidates, inputs.promptTokens, speeds.msPerToken, { isOwn: (at) => ranks[at]!.isOwn, routers: 3 });
  addUnseenCosts(
    candidates,
    speeds,
    Float64Array.from(ranks, ({ unseenTokens }) => unseenTokens),
  );
}

describe('the parts of a cost', () => {
  it.each([
    ['stator', STATOR_TERMS],
    ['dynamo', ['prefill', 'decode', 'requests']],
  ] as const)('add up to what the request was placed by, under cost model %s', (costModel, parts) => {
    fc.assert(
      fc.property(decision, (drawn) => {
        const { candidates } = explained(costModel, drawn);
        expect(candidates).toHaveLength(drawn.ranks.length);
        for (const { cost, terms, factor } of candidates) {
          const sum = parts.reduce((total, part) => total + terms[part]!, 0);
          expect(Math.abs(sum - cost)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(cost)));
          if (cost > 1e-6) expect(factor).toBeCloseTo(1, 3);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
