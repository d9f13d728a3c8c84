import { readU64 } from '../u64.ts';

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

type Fields = Readonly<Record<string, unknown>>;

/** Blocks in one message; a prompt of 4 million tokens in blocks of 16 fits. */
const BLOCKS_MAX = 262_144;

export function encodeIndexQuery({ model, local, isDeviceOnly }: IndexQuery): Fields {
  return { model_name: model, block_hashes: hashTexts(local), ...(isDeviceOnly && { device_only: true }) };
}

/** @throws TypeError for a record that is no query, or holds a hash that is not exact */
export function decodeIndexQuery(body: unknown): IndexQuery {
  const fields = fieldsOf(body);
  return {
    model: textOf(fields, 'model_name'),
    local: hashesOf(fields, 'block_hashes'),
    isDeviceOnly: fields.device_only === true,
  };
}

export function encodeScores({ device, host, disk }: IndexScores): Fields {
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
  const { TieredScores: scores, Error: reason } = fieldsOf(body);
  if (typeof reason === 'string') return { kind: 'refused', reason };
  const { device, lower_tier: lower = [] } = fieldsOf(scores);
  const host: RankBlocks[] = [];
  const disk: RankBlocks[] = [];
  for (const entry of listOf(lower, 'lower_tier')) {
    const [tier, held] = listOf(entry, 'lower_tier');
    // What lies beyond the disk is as far away as the disk, as in the index itself.
    const into = tier === 'host_pinned' ? host : disk;
    for (const hit of listOf(fieldsOf(held).hits, 'hits')) into.push(rankBlocksOf(hit));
  }
  const found = listOf(fieldsOf(device).scores, 'scores').map(rankBlocksOf);
  return { kind: 'ok', value: { device: found, host, disk } };
}

export function encodeRecord({ model, workerId, dpRank, local, sequence }: RoutingRecord): Fields {
  return {
    model_name: model,
    worker: workerOf(workerId, dpRank),
    local_hashes: hashTexts(local),
    sequence_hashes: hashTexts(sequence),
  };
}

/** @throws TypeError for a record that names no decision, or holds a hash that is not exact */
export function decodeRecord(body: unknown): RoutingRecord {
  const fields = fieldsOf(body);
  const local = hashesOf(fields, 'local_hashes');
  const sequence = hashesOf(fields, 'sequence_hashes');
  if (local.length !== sequence.length) throw invalid('sequence_hashes', 'as many as local_hashes');
  return { model: textOf(fields, 'model_name'), ...rankOf(fields.worker), local, sequence };
}

/** What a recorded decision is answered with. */
export const RECORDED = 'Recorded';

/** @throws TypeError for a record that is no answer to a recorded decision */
export function decodeRecorded(body: unknown): IndexAnswer<undefined> {
  if (body === RECORDED) return { kind: 'ok', value: undefined };
  return { kind: 'refused', reason: textOf(fieldsOf(body), 'Error') };
}

/** An answer that gives a reason instead. */
export function encodeRefusal(reason: string): Fields {
  return { Error: reason };
}

function scoreOf({ workerId, dpRank, blocks }: RankBlocks): readonly unknown[] {
  return [workerOf(workerId, dpRank), blocks];
}

function rankBlocksOf(entry: unknown): RankBlocks {
  const [worker, blocks] = listOf(entry, 'a score');
  return { ...rankOf(worker), blocks: wholeNumber(blocks, 'a score') };
}

function workerOf(workerId: string, dpRank: number): Fields {
  return { worker_id: BigInt(`0x${workerId}`).toString(), dp_rank: dpRank };
}

function rankOf(worker: unknown): { readonly workerId: string; readonly dpRank: number } {
  const { worker_id: id, dp_rank: dpRank } = fieldsOf(worker);
  const exact = readU64(id);
  if (exact === undefined) throw invalid('worker_id', 'an exact u64');
  return { workerId: exact.toString(16), dpRank: wholeNumber(dpRank, 'dp_rank') };
}

function hashTexts(pairs: Uint32Array): readonly string[] {
  const view = new BigUint64Array(pairs.length >> 1);
  new Uint32Array(view.buffer).set(pairs); // low half first is how Node's machines lay u64 out
  return Array.from(view, String);
}

function hashesOf(fields: Fields, name: string): Uint32Array {
  const list = listOf(fields[name], name);
  if (list.length > BLOCKS_MAX) throw invalid(name, `at most ${BLOCKS_MAX} hashes`);
  const exact = new BigUint64Array(list.length);
  for (let at = 0; at < list.length; at++) {
    const hash = readU64(list[at]);
    if (hash === undefined) throw invalid(`${name}[${at}]`, 'an exact u64');
    exact[at] = hash;
  }
  return new Uint32Array(exact.buffer);
}

function wholeNumber(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw invalid(name, 'a whole number');
}

function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === 'string') return value;
  throw invalid(name, 'a text');
}

function listOf(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw invalid(name, 'a list');
}

function fieldsOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw invalid('message', 'a record');
}

function invalid(field: string, allowed: string): Error {
  return new TypeError(`${field} must be ${allowed}`);
}
