const BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

/**
 * Hashes a text with FNV-1a by UTF-16 units: 32 bits, the same in every process. Its low bits by themselves are weak.
 */
export function fnv1a(text: string, basis = BASIS): number {
  let hash = basis;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), PRIME);
  return hash >>> 0;
}

/** Hashes `bytes[start .. end)` with FNV-1a: 32 bits. */
export function fnv1aOfBytes(bytes: Uint8Array, start: number, end: number): number {
  let hash = BASIS;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, PRIME);
  return hash >>> 0;
}
