/** Partitions that the items of one kind are spread over, so that no key is hot at 10,000 writers. */
export const PARTITIONS = 16;

/** Number of the partition of `name` (ASCII), 0..15; `step` = that many further on. */
export function partitionOf(name: string, step = 0): number {
  return (fnv1a(name) + step) % PARTITIONS;
}

/** FNV-1a, 32 bits, over ASCII. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
