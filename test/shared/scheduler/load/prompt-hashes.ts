/** Hashes of a path in a small tree of prompts: equal paths share blocks. Small numbers, as hashes of others may be. */
export function hashesOf(path: readonly number[]): Uint32Array {
  const hashes = new Uint32Array(2 * path.length);
  let prefix = 7;
  path.forEach((step, at) => {
    prefix = Math.imul(prefix, 31) + step + 1;
    hashes[2 * at] = prefix >>> 0;
    hashes[2 * at + 1] = at;
  });
  return hashes;
}
