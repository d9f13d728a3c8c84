import type { RankTable } from '../block-index/index.ts';
import {
  type CandidateRow,
  type Candidates,
  type CostInputs,
  type DynamoWeights,
  dynamoTerms,
  hitsBeyond,
} from './cost.ts';
import type { CandidateRecord, ExplanationRecord, SecondLookRecord } from './explanation-record.ts';
import type { KvRouterConfig } from './kv-config.ts';
import { STATOR_TERMS, type StatorTerms, TERM_COUNT } from './stator-cost.ts';
import type { DecisionReason } from './types.ts';

/** The inputs of a decision, as numbers. `explanationOf` makes it readable. */
export interface DecisionRecord {
  readonly requestId: string;
  readonly promptTokens: number;
  readonly blocks: number;
  readonly blockSizeTokens: number;
  readonly weights: DynamoWeights;
  /** Formula of the costs. */
  readonly costModel: KvRouterConfig['costModel'];
  readonly waitedMs: number;
  /** Second look that gave the decision; undefined if the router decided once. */
  readonly secondLook?: SecondLookRecord | undefined;
  /** Position of the chosen candidate among the candidates. */
  readonly chosenAt: number;
  readonly reason: DecisionReason;
  readonly count: number;
  /**
   * `COLUMNS` numbers for each candidate, see `readRow`, and behind those of all candidates the terms of the cost model
   * `stator`. The array is reused, so it may be longer.
   */
  readonly columns: Float64Array;
}

/** A place in the log, which later decisions overwrite. */
type WritableRecord = { -readonly [Field in keyof DecisionRecord]: DecisionRecord[Field] };

/** The values that a record is made from, apart from the candidates. */
export interface RecordedChoice extends Omit<DecisionRecord, 'promptTokens' | 'blockSizeTokens' | 'count' | 'columns'> {
  readonly inputs: CostInputs;
}

/** One candidate in a record. */
export interface RecordedCandidate extends CandidateRow {
  readonly rank: number;
  readonly cost: number;
}

/** Fields of a candidate that a record keeps, in the order in which `writeRows` writes them. */
const FIELDS = [
  'rank',
  'cost',
  'prefillTokens',
  'deviceBlocks',
  'hostBlocks',
  'diskBlocks',
  'sharedBlocks',
  'activeBlocks',
  'addedBlocks',
  'activeRequests',
] as const satisfies readonly (keyof RecordedCandidate)[];
const COLUMNS = FIELDS.length;
/**
 * Bound of the candidates kept in all records together, 9.5 MiB: 1,000 decisions among up to 65 workers, 128 among 512.
 */
const CANDIDATES_MAX = 65_536;
/** Numbers allocated at once for many records: 32 KiB. */
const SLAB_NUMBERS = 4096;

/**
 * The last decisions, with a bound on their number and on their candidates. Every request writes one and few are ever
 * read, so `find` searches the ring. Records are reused, because the garbage collector takes long to free objects that
 * live that long.
 */
export class DecisionLog {
  readonly #records: (WritableRecord | undefined)[] = [];
  readonly #decisionsMax: number;
  /**
   * Number of decisions ever added, and the number of the oldest that is kept. Each stands at its number modulo the
   * length of the ring.
   */
  #added = 0;
  #first = 0;
  #candidates = 0;
  #slab = new Float64Array(0);
  #slabUsed = 0;

  /** @param decisionsMax 0 = keeps nothing */
  constructor(decisionsMax: number) {
    this.#decisionsMax = decisionsMax;
  }

  get isOn(): boolean {
    return this.#decisionsMax > 0;
  }

  add(choice: RecordedChoice, candidates: Candidates): void {
    const { count } = candidates;
    const freed = this.#makeRoom(count);
    this.#candidates += count;
    const length = numbersOf(choice, count);
    const hasColumns = freed !== undefined && freed.columns.length >= length;
    const columns = hasColumns ? freed.columns : this.#newColumns(length);
    const at = this.#added++ % this.#decisionsMax;
    this.#records[at] = writeRecord(freed ?? ({} as WritableRecord), choice, candidates, columns);
  }

  /**
   * Returns columns from an array that many decisions share. An allocation for each decision would cost more than the
   * rest of it.
   */
  #newColumns(length: number): Float64Array {
    if (this.#slabUsed + length > this.#slab.length) {
      this.#slab = new Float64Array(Math.max(SLAB_NUMBERS, length));
      this.#slabUsed = 0;
    }
    this.#slabUsed += length;
    return this.#slab.subarray(this.#slabUsed - length, this.#slabUsed);
  }

  /** Returns the latest decision for that request. Read it at once: a later decision may overwrite it. */
  find(requestId: string): DecisionRecord | undefined {
    for (let number = this.#added - 1; number >= this.#first; number--) {
      const record = this.#at(number);
      if (record.requestId === requestId) return record;
    }
    return undefined;
  }

  /** Drops the oldest records until one of `count` candidates fits. Returns the last dropped record for reuse. */
  #makeRoom(count: number): WritableRecord | undefined {
    let freed: WritableRecord | undefined;
    while (this.#first < this.#added) {
      const isFull = this.#added - this.#first === this.#decisionsMax;
      if (!isFull && this.#candidates + count <= CANDIDATES_MAX) break;
      const oldest = this.#at(this.#first);
      this.#records[this.#first++ % this.#decisionsMax] = undefined;
      this.#candidates -= oldest.count;
      freed = oldest;
    }
    return freed;
  }

  #at(number: number): WritableRecord {
    return this.#records[number % this.#decisionsMax] as WritableRecord;
  }
}

/** Returns how many numbers a record of `count` candidates needs. */
function numbersOf({ costModel }: Pick<RecordedChoice, 'costModel'>, count: number): number {
  return (costModel === 'stator' ? COLUMNS + TERM_COUNT : COLUMNS) * count;
}

/** Returns a record of the candidates as they are after `Chooser.choose`. */
export function recordOf(choice: RecordedChoice, candidates: Candidates): DecisionRecord {
  return writeRecord({} as WritableRecord, choice, candidates, new Float64Array(numbersOf(choice, candidates.count)));
}

/** Writes every field of `record`, which may be empty or an older record. */
function writeRecord(
  record: WritableRecord,
  choice: RecordedChoice,
  candidates: Candidates,
  columns: Float64Array,
): WritableRecord {
  const { inputs } = choice;
  record.requestId = choice.requestId;
  record.promptTokens = inputs.promptTokens;
  record.blocks = choice.blocks;
  record.blockSizeTokens = inputs.blockSizeTokens;
  record.weights = choice.weights;
  record.costModel = choice.costModel;
  record.waitedMs = choice.waitedMs;
  record.secondLook = choice.secondLook;
  record.chosenAt = choice.chosenAt;
  record.reason = choice.reason;
  record.count = candidates.count;
  record.columns = columns;
  writeRows(columns, candidates, inputs);
  if (choice.costModel === 'stator') {
    columns.set(candidates.terms.subarray(0, TERM_COUNT * candidates.count), COLUMNS * candidates.count);
  }
  return record;
}

/** Writes one row for each candidate. It creates no objects, because it runs in every decision. */
function writeRows(columns: Float64Array, candidates: Candidates, inputs: CostInputs): void {
  const { ranks, costs, prefillTokens, count } = candidates;
  const { overlaps, activeBlocks, activeRequests, sharedDepths, sharedRanges, hashedBlocks } = inputs;
  const { device, host, disk } = overlaps;
  for (let at = 0, column = 0; at < count; at++) {
    const rank = ranks[at] as number;
    const onDevice = device[rank] as number;
    columns[column++] = rank;
    columns[column++] = costs[at] as number;
    columns[column++] = prefillTokens[at] as number;
    columns[column++] = onDevice;
    columns[column++] = host[rank] as number;
    columns[column++] = disk[rank] as number;
    columns[column++] = sharedRanges === undefined ? 0 : hitsBeyond(sharedRanges, onDevice);
    columns[column++] = activeBlocks[rank] as number;
    columns[column++] = Math.max(0, hashedBlocks - (sharedDepths[rank] as number));
    columns[column++] = activeRequests[rank] as number;
  }
}

/** Returns the candidate at position `at` of a record. */
export function readRow({ columns }: DecisionRecord, at: number): RecordedCandidate {
  const row = FIELDS.map((field, column) => [field, columns[COLUMNS * at + column]]);
  return Object.fromEntries(row) as RecordedCandidate;
}

function readStatorTerms({ columns, count }: DecisionRecord, at: number): StatorTerms {
  const first = COLUMNS * count + TERM_COUNT * at;
  return Object.fromEntries(STATOR_TERMS.map((name, term) => [name, columns[first + term]])) as StatorTerms;
}

/** Returns a record in the form that operators read: candidates cheapest first, each with the parts of its cost. */
export function explanationOf(
  record: DecisionRecord,
  ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>,
): ExplanationRecord {
  const rows = Array.from({ length: record.count }, (_, at) => readRow(record, at));
  const chosen = rows[record.chosenAt];
  const leastTokens = Math.min(...rows.map(({ prefillTokens }) => prefillTokens));
  const termsOf = (row: RecordedCandidate, at: number) =>
    record.costModel === 'dynamo' ? dynamoTerms(row, record, leastTokens, record.weights) : readStatorTerms(record, at);
  const nameOf = ({ rank }: RecordedCandidate) => ({
    worker_id: ranks.workerIdOf(rank) ?? 'gone',
    dp_rank: ranks.dpRankOf(rank),
  });
  return {
    request_id: record.requestId,
    cost_model: record.costModel,
    prompt_tokens: record.promptTokens,
    blocks: record.blocks,
    temperature: record.weights.routerTemperature,
    waited_ms: record.waitedMs,
    ...(record.secondLook === undefined ? {} : { second_look: record.secondLook }),
    chosen: chosen === undefined ? null : { ...nameOf(chosen), reason: record.reason },
    failure: null,
    candidates: rows
      .map((row, at) => ({ ...nameOf(row), ...describe(row, { ...termsOf(row, at) }) }))
      .sort((a, b) => a.cost - b.cost),
  };
}

function describe(
  row: RecordedCandidate,
  terms: Readonly<Record<string, number>>,
): Omit<CandidateRecord, 'worker_id' | 'dp_rank'> {
  const sum = Object.values(terms).reduce((total, part) => total + part, 0);
  return {
    cost: row.cost,
    overlap: { device: row.deviceBlocks, host_pinned: row.hostBlocks, disk: row.diskBlocks, shared: row.sharedBlocks },
    load: {
      prefill_tokens: row.prefillTokens,
      decode_blocks: row.activeBlocks,
      added_blocks: row.addedBlocks,
      requests: row.activeRequests,
    },
    terms,
    factor: sum === 0 ? 1 : row.cost / sum,
  };
}
