import { Unpackr } from 'msgpackr';
import { reasonOf } from '../../errors/index.ts';
import { asRecord, fields, maybe, type Shape, type UnknownRecord } from '../../records/index.ts';

/** Event of an engine. Hashes are pairs of u32 halves, low half first. */
export type EngineEvent =
  | {
      readonly kind: 'stored';
      readonly blockHashes: Uint32Array;
      /** One pair; undefined for the first block of a prompt. */
      readonly parentHash: Uint32Array | undefined;
      /**
       * Tokens of all blocks, one after another. A cache that keeps only some of its blocks names the tokens between
       * them, too; a connector of vLLM that offloads blocks may name none.
       */
      readonly tokenIds: Uint32Array;
      /** 0 if the event names no tokens. */
      readonly blockSizeTokens: number;
      /**
       * Other values that the hash of each block covers, untagged: adapter, `[media id, offset]`, salt, digests of
       * embeddings.
       */
      readonly extraKeys: readonly (readonly unknown[] | null)[] | undefined;
      readonly loraId: number | undefined;
      readonly loraName: string | undefined;
      /** Salt from SGLang; vLLM puts it among the extra keys. */
      readonly cacheSalt: string | undefined;
      readonly medium: string | undefined;
      readonly group: number | undefined;
      readonly cacheKind: string | undefined;
    }
  | {
      readonly kind: 'removed';
      readonly blockHashes: Uint32Array;
      readonly medium: string | undefined;
      readonly group: number | undefined;
    }
  | { readonly kind: 'cleared' };

/** Events of one step of an engine. */
export interface EventBatch {
  /** Unix seconds by the engine's clock. */
  readonly timestampSecs: number;
  readonly events: readonly EngineEvent[];
  /** Rank; undefined if the engine does not give it: then it is the rank of the socket. */
  readonly dataParallelRank: number | undefined;
  /** Number of events of an unknown kind or shape, which are left out. */
  readonly unreadable: number;
}

/** Error for a message whose payload is not a batch of events. */
export class EventBatchError extends Error {
  override readonly name = 'EventBatchError';
}

/** Numbers of 64 bits, such as hashes, are decoded as bigints: a number would lose bits. */
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'bigint' });

/** Positions of the fields in events that are arrays (vLLM to 0.22, SGLang to 0.5.9). */
const STORED_FIELDS = [
  'type',
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
  'kv_cache_spec_kind',
] as const;
const REMOVED_FIELDS = ['type', 'block_hashes', 'medium', 'group_idx'] as const;

const list: Shape = Array.isArray;
const word: Shape = maybe((value) => typeof value === 'string');
const integer: Shape = (value) => Number.isSafeInteger(typeof value === 'bigint' ? Number(value) : value);

const removedShape = fields({ block_hashes: list, medium: word, group_idx: maybe(integer) });
const storedShape = fields({
  block_hashes: list,
  token_ids: list,
  block_size: integer,
  lora_id: maybe(integer),
  medium: word,
  lora_name: word,
  cache_salt: word,
  extra_keys: maybe(list),
  group_idx: maybe(integer),
  kv_cache_spec_kind: word,
});

/** Fields of an event that `storedShape` accepts. */
interface StoredFields {
  readonly block_hashes: readonly unknown[];
  readonly parent_block_hash?: unknown;
  readonly token_ids: readonly unknown[];
  readonly block_size: number | bigint;
  readonly lora_id?: number | bigint | null;
  readonly medium?: string | null;
  readonly lora_name?: string | null;
  readonly cache_salt?: string | null;
  readonly extra_keys?: readonly unknown[] | null;
  readonly group_idx?: number | bigint | null;
  readonly kv_cache_spec_kind?: string | null;
}

/**
 * Reads one batch of an engine's KV events in any layout: the batch is an array, events are arrays or maps, fields may
 * be missing, and unknown fields may follow.
 *
 * @throws EventBatchError when the payload is not a batch
 */
export function decodeEventBatch(payload: Buffer): EventBatch {
  let batch: unknown;
  try {
    batch = unpackr.unpack(payload);
  } catch (cause) {
    throw new EventBatchError(reasonOf(cause), { cause });
  }
  const [timestampSecs, rawEvents, rank = null]: readonly unknown[] = Array.isArray(batch) ? batch : [];
  const isTime = typeof timestampSecs === 'number' || typeof timestampSecs === 'bigint';
  if (!isTime || !Array.isArray(rawEvents) || !(rank === null || integer(rank))) {
    throw new EventBatchError('not a time, a list of events and a rank');
  }
  const events = rawEvents.map(readEvent).filter((event) => event !== undefined);
  return {
    timestampSecs: Number(timestampSecs),
    events,
    dataParallelRank: rank === null ? undefined : Number(rank),
    unreadable: rawEvents.length - events.length,
  };
}

/** Reads an event; undefined for an unknown kind or shape. */
function readEvent(raw: unknown): EngineEvent | undefined {
  const event = fieldsOf(raw);
  switch (event.type) {
    case 'AllBlocksCleared':
      return { kind: 'cleared' };
    case 'BlockRemoved':
      return removedShape(event) ? readRemoved(event as unknown as StoredFields) : undefined;
    case 'BlockStored':
      return storedShape(event) ? readStored(event as unknown as StoredFields) : undefined;
    default:
      return undefined;
  }
}

/** Returns the fields by name, in whichever layout they came. */
function fieldsOf(raw: unknown): UnknownRecord {
  if (!Array.isArray(raw)) return asRecord(raw) ?? {};
  const event: Record<string, unknown> = { type: raw[0] };
  const names = raw[0] === 'BlockStored' ? STORED_FIELDS : REMOVED_FIELDS;
  for (const [at, name] of names.entries()) event[name] = raw[at];
  return event;
}

function readRemoved({ block_hashes, medium, group_idx }: StoredFields): EngineEvent | undefined {
  const blockHashes = toHashes(block_hashes);
  return blockHashes && { kind: 'removed', blockHashes, medium: medium ?? undefined, group: toNumber(group_idx) };
}

function readStored(event: StoredFields): EngineEvent | undefined {
  const { parent_block_hash: parent = null, extra_keys: extraKeys } = event;
  const [blockHashes, tokenIds] = [toHashes(event.block_hashes), toTokenIds(event.token_ids)];
  const parentHash = parent === null ? undefined : toHashes([parent]);
  const blockSizeTokens = Number(event.block_size);
  if (blockHashes === undefined || tokenIds === undefined || (parent !== null && parentHash === undefined)) {
    return undefined;
  }
  if (blockSizeTokens < 0) return undefined;
  return {
    kind: 'stored',
    blockHashes,
    parentHash,
    tokenIds,
    blockSizeTokens,
    extraKeys: extraKeys?.map((keys) => (Array.isArray(keys) ? keys : null)),
    loraId: toNumber(event.lora_id),
    loraName: event.lora_name ?? undefined,
    cacheSalt: event.cache_salt ?? undefined,
    medium: event.medium ?? undefined,
    group: toNumber(event.group_idx),
    cacheKind: event.kv_cache_spec_kind ?? undefined,
  };
}

function toNumber(value: number | bigint | null | undefined): number | undefined {
  return value === undefined || value === null ? undefined : Number(value);
}

/**
 * Reads token ids; undefined when the entries are neither ids nor pairs of ids. SGLang with EAGLE names each place of
 * its cache by the token there and the next one. Blocks are hashed by the tokens that they hold, so the first counts.
 */
function toTokenIds(list: readonly unknown[]): Uint32Array | undefined {
  const ids = new Uint32Array(list.length);
  for (let at = 0; at < list.length; at++) {
    const entry = list[at];
    const id: unknown = Array.isArray(entry) && entry.length === 2 ? entry[0] : entry;
    if (!Number.isInteger(id)) return undefined;
    ids[at] = id as number;
  }
  return ids;
}

const wide = new BigUint64Array(1);
const halves = new Uint32Array(wide.buffer); // low half first, on every machine that Node has builds for

/**
 * Reads hashes: integers, signed ones bit for bit, or the last 8 bytes of binary hashes, big-endian. Undefined for
 * anything else.
 */
function toHashes(list: readonly unknown[]): Uint32Array | undefined {
  const pairs = new Uint32Array(2 * list.length);
  for (let at = 0; at < list.length; at++) {
    const hash = list[at];
    if (Buffer.isBuffer(hash)) {
      if (hash.length < 8) return undefined;
      pairs[2 * at] = hash.readUInt32BE(hash.length - 4);
      pairs[2 * at + 1] = hash.readUInt32BE(hash.length - 8);
      continue;
    }
    if (typeof hash === 'bigint') wide[0] = hash;
    else if (Number.isSafeInteger(hash)) wide[0] = BigInt(hash as number);
    else return undefined;
    pairs[2 * at] = halves[0]!;
    pairs[2 * at + 1] = halves[1]!;
  }
  return pairs;
}
