import { fnv1a } from '../../records/index.ts';

const KEY_BYTES = 4;
/** Keys of workers on a known instance are from here on; all others have 32 bits. */
const HOSTED = 2 ** 40;
/** Workers of one instance that keys tell apart: a power of two far above the workers of any instance. */
const WORKERS_OF_INSTANCE = 2 ** 13;
const INSTANCE_BITS = 26;
const VARINT = 128;
/** Longest packed number in bytes. */
const VARINT_BYTES_MAX = 6;

/**
 * Returns a key that stands for a worker among thousands in place of its id: 32 bits, or with an instance 41, of which
 * 26 stand for the instance. Two workers, and two instances, hardly ever share one.
 */
export function workerKey(id: string, instanceId?: string): number {
  if (instanceId === undefined) return fnv1a(id);
  return HOSTED + instanceKey(instanceId) * WORKERS_OF_INSTANCE + folded(id, Math.log2(WORKERS_OF_INSTANCE));
}

/** Returns the part of a worker's key that stands for its instance. */
export function instanceKey(instanceId: string): number {
  return folded(instanceId, INSTANCE_BITS);
}

/** Returns the `instanceKey` of a worker's instance; undefined if the key says nothing of an instance. */
export function instanceKeyOf(key: number): number | undefined {
  return key < HOSTED ? undefined : Math.floor((key - HOSTED) / WORKERS_OF_INSTANCE);
}

/** Hashes a text to `bits` bits, in which all 32 bits of its hash take part. */
function folded(text: string, bits: number): number {
  const hash = fnv1a(text);
  return ((hash ^ (hash >>> bits)) & (2 ** bits - 1)) >>> 0;
}

/** Keys of 32 bits as base64 of their bytes, the low one first. */
export function packWorkerKeys(keys: readonly number[]): string {
  const bytes = Buffer.alloc(keys.length * KEY_BYTES);
  for (const [at, key] of keys.entries()) bytes.writeUInt32LE(key, at * KEY_BYTES);
  return bytes.toString('base64');
}

export function unpackWorkerKeys(packed: string): number[] {
  const bytes = Buffer.from(packed, 'base64');
  return Array.from({ length: Math.floor(bytes.length / KEY_BYTES) }, (_, at) => bytes.readUInt32LE(at * KEY_BYTES));
}

/**
 * Packs keys of any size as base64 of their differences in ascending order, 7 bits a byte, low bits first: a key of
 * 10,000 takes four bytes with its instance, and three without.
 */
export function packSortedKeys(keys: readonly number[]): string {
  const bytes = Buffer.alloc(keys.length * VARINT_BYTES_MAX);
  let length = 0;
  let before = 0;
  for (const key of Float64Array.from(keys).sort()) {
    let rest = key - before;
    before = key;
    for (; rest >= VARINT; rest = Math.floor(rest / VARINT)) bytes[length++] = (rest % VARINT) + VARINT;
    bytes[length++] = rest;
  }
  return bytes.subarray(0, length).toString('base64');
}

/** Returns the keys in ascending order. Bytes that are cut short in the middle of a key are dropped. */
export function unpackSortedKeys(packed: string): number[] {
  const keys: number[] = [];
  let [before, value, factor] = [0, 0, 1];
  for (const byte of Buffer.from(packed, 'base64')) {
    value += (byte % VARINT) * factor;
    factor *= VARINT;
    if (byte >= VARINT && factor < VARINT ** VARINT_BYTES_MAX) continue;
    before += value;
    keys.push(before);
    [value, factor] = [0, 1];
  }
  return keys;
}
