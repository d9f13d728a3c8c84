import type { StorageTier } from '../block-index/types.ts';
import { readU64 } from '../u64.ts';

/** A change of what one rank holds, in the form that the index takes: hashes as pairs of u32 halves, low half first. */
export type BlockChange =
  | {
      readonly kind: 'stored';
      readonly tier: StorageTier;
      readonly parent: readonly [low: number, high: number] | undefined;
      readonly blockHashes: Uint32Array;
      readonly tokensHashes: Uint32Array;
    }
  | { readonly kind: 'removed'; readonly tier: StorageTier; readonly blockHashes: Uint32Array }
  | { readonly kind: 'cleared' };

/** A change with its place in the events of one rank. */
export interface RankEvent {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number;
  readonly eventId: number;
  readonly change: BlockChange;
}

/** Why an event was passed over; each is counted. */
export type SkipReason = 'malformed' | 'too_large' | 'unsupported_residency_domain';

/** Blocks in one event. A prompt of 4 million tokens in blocks of 16 fits; more is a mistake or an attack. */
const BLOCKS_MAX = 262_144;
/** Events in one message. */
const EVENTS_MAX = 65_536;
const BYTES_A_HASH = 8;

/**
 * The events of one message in either form: compact, or Dynamo's with 64-bit values as text, numbers or bigints. What cannot be read is told to `onSkip` and left out; never throws. A number that JSON has
 * rounded counts as malformed.
 */
export function decodeRouterEvents(payload: unknown, onSkip: (reason: SkipReason) => void): RankEvent[] {
  const records = Array.isArray(payload) ? payload : [payload];
  if (records.length > EVENTS_MAX) {
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

/** One event, or why it was passed over. */
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

function readEvent(record: unknown): RankEvent {
  const outer = fieldsOf(record);
  const event = fieldsOf(outer.event);
  const { residency_domain: domain = 'worker' } = outer;
  if (domain !== 'worker' && domain !== 'cache_owner') throw new Skip('unsupported_residency_domain');
  return {
    workerId: hexId(outer.worker_id),
    dpRank: wholeNumber(event.dp_rank ?? 0),
    eventId: wholeNumber(event.event_id),
    change: readChange(event.data, tierOf(outer.storage_tier ?? outer.medium)),
  };
}

function readChange(data: unknown, tier: StorageTier): BlockChange {
  if (data === 'cleared') return { kind: 'cleared' };
  const { stored, removed, cleared } = fieldsOf(data);
  if (stored !== undefined) return readStored(fieldsOf(stored), tier);
  if (removed !== undefined) return { kind: 'removed', tier, blockHashes: hashes(fieldsOf(removed).block_hashes) };
  if (cleared !== undefined) return { kind: 'cleared' }; // as a map with one entry
  throw new Skip('malformed');
}

function readStored(stored: Fields, tier: StorageTier): BlockChange {
  const { parent_hash, blocks } = stored;
  const parent = parent_hash === null || parent_hash === undefined ? undefined : pairOf(parent_hash);
  if (blocks === undefined) {
    const blockHashes = hashes(stored.block_hashes);
    const tokensHashes = hashes(stored.tokens_hashes);
    if (tokensHashes.length !== blockHashes.length) throw new Skip('malformed');
    return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
  }
  if (!Array.isArray(blocks)) throw new Skip('malformed');
  if (blocks.length > BLOCKS_MAX) throw new Skip('too_large');
  const blockHashes = new Uint32Array(2 * blocks.length);
  const tokensHashes = new Uint32Array(2 * blocks.length);
  for (let at = 0; at < blocks.length; at++) {
    const block = fieldsOf(blocks[at]);
    writeHash(blockHashes, at, block.block_hash);
    writeHash(tokensHashes, at, block.tokens_hash);
  }
  return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
}

function hashes(value: unknown): Uint32Array {
  if (value instanceof Uint8Array) return pairsOf(value);
  if (!Array.isArray(value)) throw new Skip('malformed');
  if (value.length > BLOCKS_MAX) throw new Skip('too_large');
  const pairs = new Uint32Array(2 * value.length);
  for (let at = 0; at < value.length; at++) writeHash(pairs, at, value[at]);
  return pairs;
}

/** Up to here bytes are put together by hand: a view would need a buffer outside V8's heap. */
const SMALL_BYTES = 16 * BYTES_A_HASH;

/** Little-endian u64 in memory are pairs of u32 halves, low half first, on every machine that Node has builds for. */
function pairsOf(bytes: Uint8Array): Uint32Array {
  if (bytes.length % BYTES_A_HASH !== 0) throw new Skip('malformed');
  if (bytes.length > BLOCKS_MAX * BYTES_A_HASH) throw new Skip('too_large');
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

function pairOf(value: unknown): readonly [number, number] {
  const pair = value instanceof Uint8Array ? pairsOf(value) : new Uint32Array(2);
  if (pair.length !== 2) throw new Skip('malformed');
  if (!(value instanceof Uint8Array)) writeHash(pair, 0, value);
  return [pair[0]!, pair[1]!];
}

function writeHash(pairs: Uint32Array, at: number, value: unknown): void {
  const hash = u64Of(value);
  pairs[2 * at] = Number(hash & 0xffff_ffffn);
  pairs[2 * at + 1] = Number(hash >> 32n);
}

function u64Of(value: unknown): bigint {
  const exact = readU64(value);
  if (exact === undefined) throw new Skip('malformed');
  return exact;
}

function wholeNumber(value: unknown): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= 0) return number;
  throw new Skip('malformed');
}

/** Ids seen lately as hex: the same few hundred come again and again, and the way through bigint is slow. */
const HEX_OF = new Map<string, string>();
const HEX_KEPT_MAX = 16_384;

/** An id of an event record (decimal text, number or bigint) as an instance id, hex. */
function hexId(value: unknown): string {
  if (typeof value !== 'string') return u64Of(value).toString(16);
  const known = HEX_OF.get(value);
  if (known !== undefined) return known;
  const hex = u64Of(value).toString(16);
  if (HEX_OF.size >= HEX_KEPT_MAX) HEX_OF.clear();
  HEX_OF.set(value, hex);
  return hex;
}

/** `workerId` of an event record, undefined when it is none. */
export function workerIdOf(value: unknown): string | undefined {
  try {
    return hexId(value);
  } catch {
    return undefined; // no id at all
  }
}

const TIERS: Readonly<Record<string, StorageTier>> = {
  gpu: 'device',
  host_pinned: 'host_pinned',
  disk: 'disk',
  external: 'external',
};

/** By `storage_tier`, or by an engine's `medium` (`GPU`, `CPU...`, disk names); absent = device. */
function tierOf(name: unknown): StorageTier {
  if (name === 'device' || name === undefined || name === null) return 'device';
  if (typeof name !== 'string') throw new Skip('malformed');
  const known = TIERS[name.toLowerCase()];
  if (known !== undefined) return known;
  if (/^cpu/i.test(name)) return 'host_pinned';
  if (/^(disk|ssd|nvme|fs)/i.test(name)) return 'disk';
  return 'external'; // an offload tier that we have no name for: farther than any that we know
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new Skip('malformed');
}
