import { dynamoTerms } from '../cost/dynamo-cost.ts';
import { type ReplicaShare, statorTerms, uncachedWeight } from '../cost/stator-cost.ts';
import type { RankTable } from '../rank-table.ts';
import type { CandidateExplanation, Explanation } from '../scheduler/scheduler-types.ts';
import { type DecisionRecord, type RecordedCandidate, readRow } from './decision-log.ts';

/** A record as plain values: candidates cheapest first, each with the parts of its cost. */
export function explanationOf(
  record: DecisionRecord,
  ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>,
  share?: ReplicaShare,
): Explanation {
  const rows = Array.from({ length: record.count }, (_, at) => readRow(record, at));
  const chosen = rows[record.chosenAt];
  const pool: PoolFacts = {
    leastTokens: Math.min(...rows.map(({ prefillTokens }) => prefillTokens)),
    weight: uncachedWeight(rows.filter(({ prefillTokens }) => prefillTokens > 0).length, rows.length),
  };
  const nameOf = ({ rank }: RecordedCandidate) => ({
    workerId: ranks.workerIdOf(rank) ?? 'gone',
    dpRank: ranks.dpRankOf(rank),
  });
  return {
    requestId: record.requestId,
    costModel: record.costModel,
    promptTokens: record.promptTokens,
    blocks: record.blocks,
    temperature: record.weights.routerTemperature,
    waitedMs: record.waitedMs,
    chosen: chosen === undefined ? undefined : { ...nameOf(chosen), reason: record.reason },
    failure: undefined,
    candidates: rows
      .map((row) => ({ ...nameOf(row), ...describe(row, record, pool, share?.isOwn(row.rank) ?? true) }))
      .sort((a, b) => a.cost - b.cost),
  };
}

/** What the cost of one candidate takes from all of them. */
interface PoolFacts {
  readonly leastTokens: number;
  /** Of an uncached token, in the model `stator`. */
  readonly weight: number;
}

function describe(
  row: RecordedCandidate,
  record: DecisionRecord,
  { leastTokens, weight }: PoolFacts,
  isOwn: boolean,
): Omit<CandidateExplanation, 'workerId' | 'dpRank'> {
  const { weights } = record;
  const terms =
    record.costModel === 'dynamo'
      ? dynamoTerms(row, record, leastTokens, weights)
      : statorTerms(row, record, weights, { weight, isOwn });
  const sum =
    'backlog' in terms
      ? terms.backlog + terms.uncached + terms.decode + terms.share
      : terms.prefill + terms.decode + terms.requests;
  return {
    cost: row.cost,
    deviceBlocks: row.deviceBlocks,
    hostBlocks: row.hostBlocks,
    diskBlocks: row.diskBlocks,
    sharedBlocks: row.sharedBlocks,
    activePrefillTokens: row.prefillTokens,
    activeDecodeBlocks: row.activeBlocks,
    addedBlocks: row.addedBlocks,
    activeRequests: row.activeRequests,
    terms: { ...terms },
    factor: sum === 0 ? 1 : row.cost / sum,
  };
}
