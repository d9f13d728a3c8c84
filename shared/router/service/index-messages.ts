import { RecordReader, type UnknownRecord, u64OfHex } from '../../records/index.ts';

/*
 * A block index asked from elsewhere. Records are Dynamo's; 64-bit integers are written as decimal
 * text, which both codecs carry exactly, and read as text, bigint or a number that is exact.
 */

/** Endpoints in the component of the workers whose blocks are indexed. */
export const INDEX_QUERY_ENDPOINT = 'kv_indexer_query';
export const INDEX_RECORD_ENDPOINT = 'kv_indexer_record_routing_decision';

/** Which ranks hold the start of this prompt? */
export interface IndexQuery {
  readonly model: string;
  /** Local hashes of its blocks, pairs of u32 halves. */
  readonly local: Uint32Array;
  /** Leaves the tiers below the device out. */
  readonly isDeviceOnly: boolean;
}

/** How many blocks of a prompt one rank holds. */
export interface RankBlocks {
  /** Hex. */
  readonly workerId: string;
  readonly dpRank: number;
  readonly blocks: number;
}

/** Who holds the start of a prompt; a lower tier goes on where the one above it ends. */
export interface IndexScores {
  readonly device: readonly RankBlocks[];
  readonly host: readonly RankBlocks[];
  readonly disk: readonly RankBlocks[];
}

/** A request went to a rank, which holds its blocks from now on. */
export interface RoutingRecord {
  readonly model: string;
  readonly workerId: string;
  readonly dpRank: number;
  readonly local: Uint32Array;
  readonly sequence: Uint32Array;
}

/** What was said: the answer, or why there is none. */
export type IndexAnswer<Value> =
  | { readonly kind: 'ok'; readonly value: Value }
  | { readonly kind: 'refused'; readonly reason: string };

const read = new RecordReader((what) => new TypeError(what));

/** Blocks in one message; a prompt of 4 million tokens in blocks of 16 fits. */
const BLOCKS_MAX = 262_144;

export function encodeIndexQuery({ model, local, isDeviceOnly }: IndexQuery): UnknownRecord {
  return { model_name: model, block_hashes: hashTexts(local), ...(isDeviceOnly && { device_only: true }) };
}

/** @throws TypeError for a record that is no query, or holds a hash that is not exact */
export function decodeIndexQuery(body: unknown): IndexQuery {
  const fields = read.record(body, 'message');
  return {
    model: read.text(fields.model_name, 'model_name'),
    local: read.u64Pairs(fields.block_hashes, 'block_hashes', BLOCKS_MAX),
    isDeviceOnly: fields.device_only === true,
  };
}

export function encodeScores({ device, host, disk }: IndexScores): UnknownRecord {
  const lower = [
    ['host_pinned', host],
    ['disk', disk],
  ] as const;
  return {
    TieredScores: {
      device: { scores: device.map(scoreOf), frequencies: [] },
      lower_tier: lower
        .filter(([, held]) => held.length > 0)
        .map(([tier, held]) => [tier, { hits: held.map(scoreOf) }]),
    },
  };
}

/** @throws TypeError for a record that is no answer to a query */
export function decodeScores(body: unknown): IndexAnswer<IndexScores> {
  const { TieredScores: scores, Error: reason } = read.record(body, 'message');
  if (typeof reason === 'string') return { kind: 'refused', reason };
  const { device, lower_tier: lower = [] } = read.record(scores, 'TieredScores');
  const host: RankBlocks[] = [];
  const disk: RankBlocks[] = [];
  for (const entry of read.list(lower, 'lower_tier')) {
    const [tier, held] = read.list(entry, 'lower_tier');
    // What lies beyond the disk is as far away as the disk, as in the index itself.
    const into = tier === 'host_pinned' ? host : disk;
    for (const hit of read.list(read.record(held, 'lower_tier').hits, 'hits')) into.push(rankBlocksOf(hit));
  }
  const found = read.list(read.record(device, 'device').scores, 'scores').map(rankBlocksOf);
  return { kind: 'ok', value: { device: found, host, disk } };
}

export function encodeRecord({ model, workerId, dpRank, local, sequence }: RoutingRecord): UnknownRecord {
  return {
    model_name: model,
    worker: workerOf(workerId, dpRank),
    local_hashes: hashTexts(local),
    sequence_hashes: hashTexts(sequence),
  };
}

/** @throws TypeError for a record that names no decision, or holds a hash that is not exact */
export function decodeRecord(body: unknown): RoutingRecord {
  const fields = read.record(body, 'message');
  const local = read.u64Pairs(fields.local_hashes, 'local_hashes', BLOCKS_MAX);
  const sequence = read.u64Pairs(fields.sequence_hashes, 'sequence_hashes', BLOCKS_MAX);
  if (local.length !== sequence.length) throw new TypeError('sequence_hashes must be as many as local_hashes');
  return { model: read.text(fields.model_name, 'model_name'), ...rankOf(fields.worker), local, sequence };
}

/** What a recorded decision is answered with. */
export const RECORDED = 'Recorded';

/** @throws TypeError for a record that is no answer to a recorded decision */
export function decodeRecorded(body: unknown): IndexAnswer<undefined> {
  if (body === RECORDED) return { kind: 'ok', value: undefined };
  return { kind: 'refused', reason: read.text(read.record(body, 'message').Error, 'Error') };
}

/** An answer that gives a reason instead. */
export function encodeRefusal(reason: string): UnknownRecord {
  return { Error: reason };
}

function scoreOf({ workerId, dpRank, blocks }: RankBlocks): readonly unknown[] {
  return [workerOf(workerId, dpRank), blocks];
}

function rankBlocksOf(entry: unknown): RankBlocks {
  const [worker, blocks] = read.list(entry, 'score');
  return { ...rankOf(worker), blocks: read.wholeNumber(blocks, 'score') };
}

function workerOf(workerId: string, dpRank: number): UnknownRecord {
  return { worker_id: u64OfHex(workerId).toString(), dp_rank: dpRank };
}

function rankOf(worker: unknown): { readonly workerId: string; readonly dpRank: number } {
  const { worker_id: id, dp_rank: dpRank } = read.record(worker, 'worker');
  return { workerId: read.u64(id, 'worker_id').toString(16), dpRank: read.wholeNumber(dpRank, 'dp_rank') };
}

function hashTexts(pairs: Uint32Array): readonly string[] {
  const view = new BigUint64Array(pairs.length >> 1);
  new Uint32Array(view.buffer).set(pairs); // low half first is how Node's machines lay u64 out
  return Array.from(view, String);
}
