import type { Candidates } from '../cost/candidates.ts';
import { type CandidateRow, type CostInputs, rowOf } from '../cost/cost-inputs.ts';
import type { DynamoWeights } from '../cost/dynamo-cost.ts';
import type { DecisionReason } from '../scheduler-types.ts';

/** What a decision was made on, as numbers; `explain` makes it readable. */
export interface DecisionRecord {
  readonly requestId: string;
  readonly promptTokens: number;
  readonly blocks: number;
  readonly blockSizeTokens: number;
  readonly weights: DynamoWeights;
  readonly waitedMs: number;
  /** Position of the chosen candidate. */
  readonly chosenAt: number;
  readonly reason: DecisionReason;
  readonly count: number;
  /** `COLUMNS` numbers for each candidate, see `readRow`. May be longer: it is reused. */
  readonly columns: Float64Array;
}

export interface RecordedChoice {
  readonly requestId: string;
  readonly inputs: CostInputs;
  readonly blocks: number;
  readonly weights: DynamoWeights;
  readonly waitedMs: number;
  readonly chosenAt: number;
  readonly reason: DecisionReason;
}

/** One candidate of a record. */
export interface RecordedCandidate extends CandidateRow {
  readonly rank: number;
  readonly cost: number;
}

const COLUMNS = 10;
/** Candidates kept in all records together, 10 MiB: 1,000 decisions among up to 131 workers, 256 among 512. */
const CANDIDATES_MAX = 131_072;

/** The last decisions by request id, bounded in number and in candidates. */
export class DecisionLog {
  readonly #records = new Map<string, DecisionRecord>(); // oldest first
  readonly #decisionsMax: number;
  #candidates = 0;

  /** @param decisionsMax 0 = keeps nothing */
  constructor(decisionsMax: number) {
    this.#decisionsMax = decisionsMax;
  }

  get isOn(): boolean {
    return this.#decisionsMax > 0;
  }

  add(choice: RecordedChoice, candidates: Candidates): void {
    const freed = this.#makeRoom(candidates.count);
    this.#forget(choice.requestId);
    this.#candidates += candidates.count;
    this.#records.set(choice.requestId, recordOf(choice, candidates, freed));
  }

  find(requestId: string): DecisionRecord | undefined {
    return this.#records.get(requestId);
  }

  /** Drops the oldest records until one of `count` candidates fits; returns the columns of the last one, to be used again. */
  #makeRoom(count: number): Float64Array | undefined {
    let freed: Float64Array | undefined;
    for (const [id, record] of this.#records) {
      if (this.#records.size < this.#decisionsMax && this.#candidates + count <= CANDIDATES_MAX) break;
      freed = record.columns;
      this.#forget(id);
    }
    return freed;
  }

  #forget(requestId: string): void {
    this.#candidates -= this.#records.get(requestId)?.count ?? 0;
    this.#records.delete(requestId);
  }
}

/** A record of the candidates as they stand after `Chooser.choose`. */
export function recordOf(choice: RecordedChoice, candidates: Candidates, reused?: Float64Array): DecisionRecord {
  const { inputs, ...facts } = choice;
  const { count } = candidates;
  const fits = reused !== undefined && reused.length >= COLUMNS * count;
  const columns = fits ? reused : new Float64Array(COLUMNS * count);
  for (let at = 0; at < count; at++) writeRow(columns, at, candidates, inputs);
  const { promptTokens, blockSizeTokens } = inputs;
  return { ...facts, promptTokens, blockSizeTokens, count, columns };
}

function writeRow(columns: Float64Array, at: number, candidates: Candidates, inputs: CostInputs): void {
  const rank = candidates.ranks[at] as number;
  const row = rowOf(rank, candidates.prefillTokens[at] as number, inputs);
  let column = COLUMNS * at;
  columns[column++] = rank;
  columns[column++] = candidates.costs[at] as number;
  columns[column++] = row.prefillTokens;
  columns[column++] = row.deviceBlocks;
  columns[column++] = row.hostBlocks;
  columns[column++] = row.diskBlocks;
  columns[column++] = row.sharedBlocks;
  columns[column++] = row.activeBlocks;
  columns[column++] = row.addedBlocks;
  columns[column] = row.activeRequests;
}

/** The candidate at `at` of a record. */
export function readRow({ columns }: DecisionRecord, at: number): RecordedCandidate {
  const [
    rank,
    cost,
    prefillTokens,
    deviceBlocks,
    hostBlocks,
    diskBlocks,
    sharedBlocks,
    activeBlocks,
    addedBlocks,
    requests,
  ] = columns.subarray(COLUMNS * at, COLUMNS * (at + 1)) as unknown as FixedRow;
  return {
    rank,
    cost,
    prefillTokens,
    deviceBlocks,
    hostBlocks,
    diskBlocks,
    sharedBlocks,
    activeBlocks,
    addedBlocks,
    activeRequests: requests,
  };
}

type FixedRow = readonly [number, number, number, number, number, number, number, number, number, number];
