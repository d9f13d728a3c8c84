import { fnv1a } from '../../records/index.ts';

const KEY_BYTES = 4;

/**
 * Returns a key of 32 bits that stands for a worker among thousands in place of its id. Two workers hardly ever share
 * one.
 */
export function workerKey(id: string): number {
  return fnv1a(id);
}

/** Keys as base64 of their bytes, the low one first. */
export function packWorkerKeys(keys: readonly number[]): string {
  const bytes = Buffer.alloc(keys.length * KEY_BYTES);
  for (const [at, key] of keys.entries()) bytes.writeUInt32LE(key, at * KEY_BYTES);
  return bytes.toString('base64');
}

export function unpackWorkerKeys(packed: string): number[] {
  const bytes = Buffer.from(packed, 'base64');
  return Array.from({ length: Math.floor(bytes.length / KEY_BYTES) }, (_, at) => bytes.readUInt32LE(at * KEY_BYTES));
}
