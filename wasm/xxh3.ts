/**
 * XXH3 with 64 bits and a seed, and the two loops that hash blocks of tokens with it. The file is AssemblyScript:
 * JavaScript multiplies 64-bit integers only as BigInt, which takes 100 times as long. `npm run wasm` compiles it into
 * shared/tokens/hashing/xxh3-code.ts.
 */

const P1: u64 = 0x9e3779b185ebca87;
const P2: u64 = 0xc2b2ae3d27d4eb4f;
const P3: u64 = 0x165667b19e3779f9;
const P4: u64 = 0x85ebca77c2b2ae63;
const P5: u64 = 0x27d4eb2f165667c5;
const Q1: u64 = 0x9e3779b1;
const Q2: u64 = 0x85ebca77;
const Q3: u64 = 0xc2b2ae3d;
const X1: u64 = 0x165667919e3779f9;
const X2: u64 = 0x9fb21c651e98df25;
const LOW_32: u64 = 0xffffffff;

/** XXH3's default secret. */
const SECRET = memory.data<u64>([
  0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
  0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
  0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
  0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
  0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
  0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
]);
/** The secret that `hashLong` derives from the seed. */
const DERIVED = memory.data(192, 8);
const ACCUMULATORS = memory.data(64, 8);

// @ts-ignore: decorator
@inline
function key(offset: usize): u64 {
  return load<u64>(SECRET + offset);
}

/** XXH3's mul128_fold64: multiplies to 128 bits and returns the two halves of the product, xored. */
// @ts-ignore: decorator
@inline
function fold(a: u64, b: u64): u64 {
  const low = (a & LOW_32) * (b & LOW_32);
  const mixed = (a >> 32) * (b & LOW_32);
  const cross = (low >> 32) + (mixed & LOW_32) + (a & LOW_32) * (b >> 32);
  return ((a >> 32) * (b >> 32) + (mixed >> 32) + (cross >> 32)) ^ ((cross << 32) | (low & LOW_32));
}

/** Mixes 16 bytes of the input with 16 bytes of the secret. */
// @ts-ignore: decorator
@inline
function mix(input: usize, secret: usize, seed: u64): u64 {
  return fold(load<u64>(input) ^ (key(secret) + seed), load<u64>(input, 8) ^ (key(secret + 8) - seed));
}

// @ts-ignore: decorator
@inline
function avalanche(value: u64): u64 {
  const mixed = (value ^ (value >> 37)) * X1;
  return mixed ^ (mixed >> 32);
}

/** Hashes 9 to 16 bytes from their length and their first and last 8 bytes, which are xored with their keys. */
// @ts-ignore: decorator
@inline
function ofEnds(length: u64, first: u64, last: u64): u64 {
  return avalanche(length + bswap<u64>(first) + last + fold(first, last));
}

// @ts-ignore: decorator
@inline
function firstKey(seed: u64): u64 {
  return (key(24) ^ key(32)) + seed;
}

// @ts-ignore: decorator
@inline
function lastKey(seed: u64): u64 {
  return (key(40) ^ key(48)) - seed;
}

function hash0To16(input: usize, length: usize, seed: u64): u64 {
  const end = input + length;
  if (length > 8) return ofEnds(length, load<u64>(input) ^ firstKey(seed), load<u64>(end - 8) ^ lastKey(seed));
  if (length > 3) {
    const word = <u64>load<u32>(end - 4) + (<u64>load<u32>(input) << 32);
    let mixed = word ^ ((key(8) ^ key(16)) - (seed ^ (<u64>bswap<u32>(<u32>seed) << 32)));
    mixed = (mixed ^ rotl<u64>(mixed, 49) ^ rotl<u64>(mixed, 24)) * X2;
    mixed = (mixed ^ ((mixed >> 35) + length)) * X2;
    return mixed ^ (mixed >> 28);
  }
  let word = key(56) ^ key(64) ^ seed;
  if (length > 0) {
    const ends = (<u64>load<u8>(input) << 16) | <u64>load<u8>(end - 1);
    const middle = <u64>load<u8>(input + (length >> 1)) << 24;
    word = ends | middle | (<u64>length << 8);
    word ^= <u64>(load<u32>(SECRET) ^ load<u32>(SECRET, 4)) + seed;
  }
  word = (word ^ (word >> 33)) * P2;
  word = (word ^ (word >> 29)) * P3;
  return word ^ (word >> 32);
}

function hash129To240(input: usize, length: usize, seed: u64): u64 {
  let sum = <u64>length * P1;
  for (let at: usize = 0; at < 128; at += 16) sum += mix(input + at, at, seed);
  sum = avalanche(sum);
  for (let at: usize = 128; at + 16 <= length; at += 16) sum += mix(input + at, at - 125, seed);
  return avalanche(sum + mix(input + length - 16, 119, seed));
}

// @ts-ignore: decorator
@inline
function accumulate(input: usize, secret: usize, lane: usize): void {
  const value = load<u64>(input + lane);
  const keyed = value ^ load<u64>(secret + lane);
  store<u64>(ACCUMULATORS + (lane ^ 8), load<u64>(ACCUMULATORS + (lane ^ 8)) + value);
  store<u64>(ACCUMULATORS + lane, load<u64>(ACCUMULATORS + lane) + (keyed & LOW_32) * (keyed >> 32));
}

/** Adds 64 bytes of the input to the accumulators. */
function stripe(input: usize, secret: usize): void {
  accumulate(input, secret, 0);
  accumulate(input, secret, 8);
  accumulate(input, secret, 16);
  accumulate(input, secret, 24);
  accumulate(input, secret, 32);
  accumulate(input, secret, 40);
  accumulate(input, secret, 48);
  accumulate(input, secret, 56);
}

function hashLong(input: usize, length: usize, seed: u64): u64 {
  for (let at: usize = 0; at < 192; at += 16) {
    store<u64>(DERIVED + at, key(at) + seed);
    store<u64>(DERIVED + at + 8, key(at + 8) - seed);
  }
  store<u64>(ACCUMULATORS, Q3);
  store<u64>(ACCUMULATORS, P1, 8);
  store<u64>(ACCUMULATORS, P2, 16);
  store<u64>(ACCUMULATORS, P3, 24);
  store<u64>(ACCUMULATORS, P4, 32);
  store<u64>(ACCUMULATORS, Q2, 40);
  store<u64>(ACCUMULATORS, P5, 48);
  store<u64>(ACCUMULATORS, Q1, 56);
  let at = input;
  for (let block = (length - 1) >> 10; block > 0; block--) {
    for (let index: usize = 0; index < 128; index += 8, at += 64) stripe(at, DERIVED + index);
    for (let lane: usize = 0; lane < 64; lane += 8) {
      const value = load<u64>(ACCUMULATORS + lane);
      store<u64>(ACCUMULATORS + lane, (value ^ (value >> 47) ^ load<u64>(DERIVED + lane, 128)) * Q1);
    }
  }
  const rest = (((length - 1) & 1023) >> 6) * 8;
  for (let index: usize = 0; index < rest; index += 8, at += 64) stripe(at, DERIVED + index);
  stripe(input + length - 64, DERIVED + 121);
  let sum = <u64>length * P1;
  for (let at: usize = 0; at < 64; at += 16) {
    const low = load<u64>(ACCUMULATORS + at) ^ load<u64>(DERIVED + at, 11);
    sum += fold(low, load<u64>(ACCUMULATORS + at, 8) ^ load<u64>(DERIVED + at, 19));
  }
  return avalanche(sum);
}

function hash(input: usize, length: usize, seed: u64): u64 {
  if (length > 240) return hashLong(input, length, seed);
  if (length > 128) return hash129To240(input, length, seed);
  if (length < 17) return hash0To16(input, length, seed);
  const end = input + length;
  let sum = <u64>length * P1;
  if (length > 96) sum += mix(input + 48, 96, seed) + mix(end - 64, 112, seed);
  if (length > 64) sum += mix(input + 32, 64, seed) + mix(end - 48, 80, seed);
  if (length > 32) sum += mix(input + 16, 32, seed) + mix(end - 32, 48, seed);
  return avalanche(sum + mix(input, 0, seed) + mix(end - 16, 16, seed));
}

// @ts-ignore: decorator
@inline
function joined(low: u32, high: u32): u64 {
  return <u64>low | (<u64>high << 32);
}

/** Hashes `count` windows of `input`, which begin `strideBytes` apart, and writes their hashes to `output`. */
export function hashBlocks(
  input: usize,
  count: u32,
  windowBytes: usize,
  strideBytes: usize,
  seedLow: u32,
  seedHigh: u32,
  output: usize,
): void {
  const seed = joined(seedLow, seedHigh);
  for (; count > 0; count--, input += strideBytes, output += 8) store<u64>(output, hash(input, windowBytes, seed));
}

/**
 * Hashes each of `count` words of `input` together with the previous hash, at first the parent's, and writes the hashes
 * to `output`.
 */
export function chain(
  input: usize,
  count: u32,
  parentLow: u32,
  parentHigh: u32,
  output: usize,
  seedLow: u32,
  seedHigh: u32,
): void {
  const seed = joined(seedLow, seedHigh);
  let last = joined(parentLow, parentHigh);
  for (; count > 0; count--, input += 8, output += 8) {
    last = ofEnds(16, last ^ firstKey(seed), load<u64>(input) ^ lastKey(seed));
    store<u64>(output, last);
  }
}
