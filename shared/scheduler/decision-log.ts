import type { RankTable } from '../block-index/index.ts';
import {
  type CandidateRow,
  type Candidates,
  type CostInputs,
  cachedTokensOf,
  type DynamoWeights,
  dynamoTerms,
  hitsBeyond,
  type ReplicaShare,
  statorTerms,
  uncachedWeight,
} from './cost.ts';
import type { CandidateRecord, ExplanationRecord } from './explanation-record.ts';
import type { KvRouterConfig } from './kv-config.ts';
import type { DecisionReason } from './types.ts';

/** What a decision was made on, as numbers; `explain` makes it readable. */
export interface DecisionRecord {
  readonly requestId: string;
  readonly promptTokens: number;
  readonly blocks: number;
  readonly blockSizeTokens: number;
  readonly weights: DynamoWeights;
  /** The formula that scored it. */
  readonly costModel: KvRouterConfig['costModel'];
  readonly waitedMs: number;
  /** Position of the chosen candidate. */
  readonly chosenAt: number;
  readonly reason: DecisionReason;
  readonly count: number;
  /** `COLUMNS` numbers for each candidate, see `readRow`. May be longer: it is reused. */
  readonly columns: Float64Array;
}

/** A place in the log, written over and over. */
type WritableRecord = { -readonly [Field in keyof DecisionRecord]: DecisionRecord[Field] };

/** What a record is made from, beside the candidates. */
export interface RecordedChoice extends Omit<DecisionRecord, 'promptTokens' | 'blockSizeTokens' | 'count' | 'columns'> {
  readonly inputs: CostInputs;
}

/** One candidate of a record. */
export interface RecordedCandidate extends CandidateRow {
  readonly rank: number;
  readonly cost: number;
}

/** What is kept of a candidate, in the order in which `writeRows` writes it. */
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
/** Candidates kept in all records together, 10 MiB: 1,000 decisions among up to 131 workers, 256 among 512. */
const CANDIDATES_MAX = 131_072;
/** 32 KiB. */
const SLAB_NUMBERS = 4096;

/**
 * The last decisions, bounded in number and in candidates. Every request writes one and hardly any is asked for: a ring
 * that is searched, whose records are used again, since what lives as long as they do is dear to collect.
 */
export class DecisionLog {
  readonly #records: (WritableRecord | undefined)[] = [];
  readonly #decisionsMax: number;
  /**
   * Decisions ever added, and the first of them that is kept; each stands at its number modulo the length of the ring.
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
    const hasColumns = freed !== undefined && freed.columns.length >= COLUMNS * count;
    const columns = hasColumns ? freed.columns : this.#newColumns(COLUMNS * count);
    const at = this.#added++ % this.#decisionsMax;
    this.#records[at] = writeRecord(freed ?? ({} as WritableRecord), choice, candidates, columns);
  }

  /** For many decisions at once: memory of its own would cost a decision more than all the rest. */
  #newColumns(length: number): Float64Array {
    if (this.#slabUsed + length > this.#slab.length) {
      this.#slab = new Float64Array(Math.max(SLAB_NUMBERS, length));
      this.#slabUsed = 0;
    }
    this.#slabUsed += length;
    return this.#slab.subarray(this.#slabUsed - length, this.#slabUsed);
  }

  /** The last one of that request; to be read at once, it is written over by a later one. */
  find(requestId: string): DecisionRecord | undefined {
    for (let number = this.#added - 1; number >= this.#first; number--) {
      const record = this.#at(number);
      if (record.requestId === requestId) return record;
    }
    return undefined;
  }

  /** Drops the oldest records until one of `count` candidates fits; returns the last of them, to be used again. */
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

/** A record of the candidates as they stand after `Chooser.choose`. */
export function recordOf(choice: RecordedChoice, candidates: Candidates): DecisionRecord {
  return writeRecord({} as WritableRecord, choice, candidates, new Float64Array(COLUMNS * candidates.count));
}

/** Writes every field of `record`, an empty one or an older one. */
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
  record.chosenAt = choice.chosenAt;
  record.reason = choice.reason;
  record.count = candidates.count;
  record.columns = columns;
  writeRows(columns, candidates, inputs);
  return record;
}

/** Every decision pays for this, so it makes no objects. */
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

/** The candidate at `at` of a record. */
export function readRow({ columns }: DecisionRecord, at: number): RecordedCandidate {
  const row = FIELDS.map((field, column) => [field, columns[COLUMNS * at + column]]);
  return Object.fromEntries(row) as RecordedCandidate;
}

/** A record as operators read it: candidates cheapest first, each with the parts of its cost. */
export function explanationOf(
  record: DecisionRecord,
  ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>,
  share?: ReplicaShare,
): ExplanationRecord {
  const rows = Array.from({ length: record.count }, (_, at) => readRow(record, at));
  const chosen = rows[record.chosenAt];
  const pool: PoolFacts = {
    leastTokens: Math.min(...rows.map(({ prefillTokens }) => prefillTokens)),
    weight: uncachedWeight(rows.filter(({ prefillTokens }) => prefillTokens > 0).length, rows.length),
  };
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
    chosen: chosen === undefined ? null : { ...nameOf(chosen), reason: record.reason },
    failure: null,
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
): Omit<CandidateRecord, 'worker_id' | 'dp_rank'> {
  const { weights } = record;
  const terms =
    record.costModel === 'dynamo'
      ? dynamoTerms(row, record, leastTokens, weights)
      : statorTerms({ ...row, cachedTokens: cachedTokensOf(row, record, weights) }, record, { weight, isOwn });
  const sum =
    'backlog' in terms
      ? terms.backlog + terms.uncached + terms.decode + terms.share
      : terms.prefill + terms.decode + terms.requests;
  return {
    cost: row.cost,
    overlap: { device: row.deviceBlocks, host_pinned: row.hostBlocks, disk: row.diskBlocks, shared: row.sharedBlocks },
    load: {
      prefill_tokens: row.prefillTokens,
      decode_blocks: row.activeBlocks,
      added_blocks: row.addedBlocks,
      requests: row.activeRequests,
    },
    terms: Object.fromEntries(Object.entries(terms).map(([name, part]) => [toSnakeCase(name), part])),
    factor: sum === 0 ? 1 : row.cost / sum,
  };
}

function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
