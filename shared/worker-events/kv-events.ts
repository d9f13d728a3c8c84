import type { HashPair, StorageTier, StoredRun } from '../block-index/index.ts';
import { RecordReader, type UnknownRecord } from '../records/index.ts';
import type { RankId } from '../router/index.ts';

/**
 * A change of the blocks that one rank holds, in the form of the index: hashes as pairs of u32 halves, low half first.
 */
export type BlockChange =
  | ({ readonly kind: 'stored' } & StoredRun)
  | { readonly kind: 'removed'; readonly tier: StorageTier; readonly blockHashes: Uint32Array }
  | { readonly kind: 'cleared' };

/** Receiver of the changes of a worker's ranks: the index of its model. */
export interface BlockChangeSink {
  /** Takes one change of one rank, and ignores a rank that it does not know. */
  changed(workerId: string, dpRank: number, change: BlockChange): void;
}

/** A change with its position in the events of one rank. */
export interface RankEvent extends RankId {
  readonly eventId: number;
  readonly change: BlockChange;
}

/** Reason why an event was skipped. Each is counted. */
export type SkipReason = 'malformed' | 'too_large' | 'unsupported_residency_domain';

/**
 * Bound of the blocks in one event. A prompt of 4 million tokens in blocks of 16 fits; more is a mistake or an attack.
 */
const BLOCKS_MAX = 262_144;
const BYTES_A_HASH = 8;

/**
 * Decodes the events of one message in either form: compact, or Dynamo's with 64-bit values as text, numbers or
 * bigints. Leaves out what it cannot read, and calls `onSkip` for it. Never throws. A number that JSON has rounded
 * counts as malformed.
 */
export function decodeRouterEvents(payload: unknown, onSkip: (reason: SkipReason) => void): RankEvent[] {
  const records = Array.isArray(payload) ? payload : [payload];
  if (records.length > EVENTS_PER_MESSAGE_MAX) {
    onSkip('too_large');
    return [];
  }
  const events: RankEvent[] = [];
  for (const record of records) {
    const event = decodeRouterEvent(record);
    if (typeof event === 'string') onSkip(event);
    else events.push(event);
  }
  return events;
}

/** Decodes one event, or returns the reason to skip it. */
export function decodeRouterEvent(record: unknown): RankEvent | SkipReason {
  try {
    return readEvent(record);
  } catch (thrown) {
    if (thrown instanceof Skip) return thrown.reason;
    throw thrown;
  }
}

class Skip extends Error {
  readonly reason: SkipReason;

  constructor(reason: SkipReason) {
    super(reason);
    this.reason = reason;
  }
}

/** Created once, because a stack trace for each of thousands would take longer than reading them. */
const MALFORMED = new Skip('malformed');
const TOO_LARGE = new Skip('too_large');
const UNSUPPORTED = new Skip('unsupported_residency_domain');

const read = new RecordReader(() => MALFORMED);

function readEvent(record: unknown): RankEvent {
  const outer = read.record(record, 'event');
  const event = read.record(outer.event, 'event');
  const { residency_domain: domain = 'worker' } = outer;
  if (domain !== 'worker' && domain !== 'cache_owner') throw UNSUPPORTED;
  return {
    workerId: hexId(outer.worker_id),
    dpRank: read.wholeNumber(event.dp_rank ?? 0, 'dp_rank'),
    eventId: read.wholeNumber(event.event_id, 'event_id'),
    change: readChange(event.data, tierOf(outer.storage_tier ?? outer.medium)),
  };
}

function readChange(data: unknown, tier: StorageTier): BlockChange {
  if (data === 'cleared') return { kind: 'cleared' };
  const { stored, removed, cleared } = read.record(data, 'data');
  if (stored !== undefined) return readStored(read.record(stored, 'stored'), tier);
  if (removed !== undefined)
    return { kind: 'removed', tier, blockHashes: hashes(read.record(removed, 'removed').block_hashes) };
  if (cleared !== undefined) return { kind: 'cleared' }; // as a map with one entry
  throw MALFORMED;
}

function readStored(stored: UnknownRecord, tier: StorageTier): BlockChange {
  const { parent_hash, blocks } = stored;
  const parent = parent_hash === null || parent_hash === undefined ? undefined : pairOf(parent_hash);
  if (blocks === undefined) {
    const blockHashes = hashes(stored.block_hashes);
    const tokensHashes = hashes(stored.tokens_hashes);
    if (tokensHashes.length !== blockHashes.length) throw MALFORMED;
    return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
  }
  if (!Array.isArray(blocks)) throw MALFORMED;
  if (blocks.length > BLOCKS_MAX) throw TOO_LARGE;
  const blockHashes = new Uint32Array(2 * blocks.length);
  const tokensHashes = new Uint32Array(2 * blocks.length);
  for (let at = 0; at < blocks.length; at++) {
    const block = read.record(blocks[at], 'block');
    read.writeU64(blockHashes, at, block.block_hash, 'block_hash');
    read.writeU64(tokensHashes, at, block.tokens_hash, 'tokens_hash');
  }
  return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
}

function hashes(value: unknown): Uint32Array {
  if (value instanceof Uint8Array) return pairsOf(value);
  const list = read.list(value, 'hashes');
  if (list.length > BLOCKS_MAX) throw TOO_LARGE;
  return read.u64Pairs(list, 'hashes', BLOCKS_MAX);
}

/** Bytes up to which they are combined by hand: a view would need a buffer outside V8's heap. */
const SMALL_BYTES = 16 * BYTES_A_HASH;

/**
 * Reads little-endian u64 values. In memory they are pairs of u32 halves, low half first, on every machine that Node
 * has builds for.
 */
function pairsOf(bytes: Uint8Array): Uint32Array {
  if (bytes.length % BYTES_A_HASH !== 0) throw MALFORMED;
  if (bytes.length > BLOCKS_MAX * BYTES_A_HASH) throw TOO_LARGE;
  if (bytes.length <= SMALL_BYTES) return assembled(bytes);
  const aligned = bytes.byteOffset % Uint32Array.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes);
  return new Uint32Array(aligned.buffer, aligned.byteOffset, bytes.length / Uint32Array.BYTES_PER_ELEMENT);
}

function assembled(bytes: Uint8Array): Uint32Array {
  const words = new Uint32Array(bytes.length / Uint32Array.BYTES_PER_ELEMENT);
  for (let at = 0, from = 0; at < words.length; at++, from += 4) {
    words[at] = bytes[from]! | (bytes[from + 1]! << 8) | (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24);
  }
  return words;
}

function pairOf(value: unknown): HashPair {
  const pair = value instanceof Uint8Array ? pairsOf(value) : read.u64Pairs([value], 'parent_hash', 1);
  if (pair.length !== 2) throw MALFORMED;
  return [pair[0]!, pair[1]!];
}

/** Hex of recently read ids: the same few hundred come repeatedly, and the conversion by bigint is slow. */
const HEX_OF = new Map<string, string>();
const HEX_KEPT_MAX = 16_384;

/** Converts an id of an event record (decimal text, number or bigint) to an instance id, hex. */
function hexId(value: unknown): string {
  if (typeof value !== 'string') return read.u64(value, 'worker_id').toString(16);
  const known = HEX_OF.get(value);
  if (known !== undefined) return known;
  const hex = read.u64(value, 'worker_id').toString(16);
  if (HEX_OF.size >= HEX_KEPT_MAX) HEX_OF.clear();
  HEX_OF.set(value, hex);
  return hex;
}

/** Returns the `workerId` of an event record; undefined if it is not an id. */
export function workerIdOf(value: unknown): string | undefined {
  try {
    return hexId(value);
  } catch {
    return undefined; // not an id
  }
}

const TIERS: Readonly<Record<string, StorageTier>> = {
  gpu: 'device',
  host_pinned: 'host_pinned',
  disk: 'disk',
  external: 'external',
};

/** Returns the tier of a `storage_tier`, or of an engine's `medium` (`GPU`, `CPU...`, disk names); absent = device. */
function tierOf(name: unknown): StorageTier {
  if (name === 'device' || name === undefined || name === null) return 'device';
  if (typeof name !== 'string') throw MALFORMED;
  const known = TIERS[name.toLowerCase()];
  if (known !== undefined) return known;
  if (/^cpu/i.test(name)) return 'host_pinned';
  if (/^(disk|ssd|nvme|fs)/i.test(name)) return 'disk';
  return 'external'; // an offload tier without a name here counts as farther than all others
}

/** Topics of cache changes and of load reports. */
export const KV_EVENTS_TOPIC = 'kv-events';
export const LOAD_TOPIC = 'kv_metrics';
/** Bound of the events in one message on `kv-events`, because one turn of the event loop reads a whole message. */
export const EVENTS_PER_MESSAGE_MAX = 4096;

/** Blocks of a store in Stator's own form: 8 bytes a block, little-endian. */
interface CompactStored {
  readonly parent_hash: Uint8Array | null;
  readonly block_hashes: Uint8Array;
  readonly tokens_hashes: Uint8Array;
}

/** Blocks of a store in Dynamo's form; 64-bit values as decimal text. */
export interface PlainStored {
  readonly parent_hash: string | null;
  readonly start_position: null;
  readonly blocks: readonly {
    readonly block_hash: string;
    readonly tokens_hash: string;
    readonly mm_extra_info: null;
  }[];
}

/**
 * One event on `kv-events` as Stator writes it. A message is a list of them. `decodeRouterEvents` reads both forms, and
 * Dynamo's own with its 64-bit numbers.
 */
export interface RouterEventRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly storage_tier: StorageTier;
  readonly event: {
    /** Number of the event among those of one rank, from 1, without gaps. */
    readonly event_id: number;
    readonly dp_rank: number;
    readonly data:
      | { readonly stored: CompactStored | PlainStored }
      | { readonly removed: { readonly block_hashes: Uint8Array | readonly string[] } }
      | 'cleared';
  };
}

/** One message on `kv_metrics`: the worker's own view of one rank. */
export interface ActiveLoadRecord {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly kv_used_blocks: number;
  readonly active_prefill_tokens: number;
  /** Id of the last event that the rank published, so that a router notices if the last ones were lost. */
  readonly last_event_id?: number;
  /**
   * Ids of requests with a reservation that have arrived since the worker's last report, and of those that have left.
   */
  readonly arrived_requests?: readonly string[];
  readonly left_requests?: readonly string[];
}

/** Header of a request for which a router in another process holds a place. The worker reports its value. */
export const RESERVATION_HEADER = 'x-stator-reservation';

/** Returns the endpoint where a router asks for the events or the blocks of one rank. */
export function recoveryEndpoint(dpRank: number): string {
  return `${PREFIX}${dpRank}`;
}

const PREFIX = 'worker_kv_indexer_query_dp';

/** Returns the rank of a recovery endpoint; undefined for other endpoints. */
export function rankOfRecoveryEndpoint(endpoint: string): number | undefined {
  if (!endpoint.startsWith(PREFIX)) return undefined;
  const rank = endpoint.slice(PREFIX.length);
  return /^\d{1,9}$/.test(rank) ? Number(rank) : undefined;
}

/** Request of a router for events. Both ids are inclusive. */
export interface RecoveryRequest {
  /** u64 as decimal text. */
  readonly worker_id: string;
  readonly dp_rank: number;
  /** First event; absent = all blocks that the rank holds. */
  readonly start_event_id?: number;
  /** Last event; absent = the newest. */
  readonly end_event_id?: number;
  /** Whether the caller reads the compact form, for workers that also know another form. */
  readonly compact?: true;
}

/**
 * Answer of a worker. Events come in several answers of the same kind, one after another. The end of the stream says
 * that they are complete.
 */
export type RecoveryResponse = RecoveryVariant & {
  /** Publisher, hex. Every publisher numbers its events from 1. */
  readonly publisher_id?: string;
};

type RecoveryVariant =
  | { readonly Events: { readonly events: readonly RouterEventRecord[]; readonly last_event_id: number } }
  | { readonly TreeDump: { readonly events: readonly RouterEventRecord[]; readonly last_event_id: number } }
  | {
      readonly TooNew: {
        readonly requested_start: number;
        readonly requested_end: number | null;
        readonly newest_available: number;
      };
    }
  | { readonly InvalidRange: { readonly start_id: number; readonly end_id: number } }
  | { readonly Error: string };
