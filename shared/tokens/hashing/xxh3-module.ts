import {
  assembleModule,
  type Code,
  call,
  get,
  giveBack,
  i32,
  i64,
  int,
  long,
  set,
  type WasmFunction,
  when,
  whileTrue,
} from './wasm-assembler.ts';

/** The 192 bytes of XXH3's default secret. */
const SECRET_HEX =
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
  'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
  'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
  '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e';
const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const P5 = 0x27d4eb2f165667c5n;
const Q1 = 0x9e3779b1n;
const Q2 = 0x85ebca77n;
const Q3 = 0xc2b2ae3dn;
const X1 = 0x165667919e3779f9n;
const X2 = 0x9fb21c651e98df25n;
const LOW_32 = 0xffff_ffffn;

/** Memory: the secret, the one derived from a seed, eight accumulators; then what callers lay down. */
const SECRET = 0;
const DERIVED = 192;
const ACCUMULATORS = 384;
/** First byte for callers. */
export const FREE = 512;

/** Positions of the functions below. */
const FOLD = 0;
const MIX = 1;
const AVALANCHE = 2;
const STRIPE = 3;
const LONG_HASH = 4;
const HASH = 5;

const k = (offset: number): Code => long.load(i32(SECRET), offset);
const xorShift = (value: Code, local: number, bits: number): Code => [
  ...set(local, value),
  ...long.xor(get(local), long.shr(get(local), bits)),
];

/** Locals for what a product is put together from. */
interface Products {
  readonly low: number;
  readonly cross: number;
  readonly mixed: number;
}

/** Low half of the 128-bit product of two locals, xor its high half, from four 32-bit products. */
function folded(a: number, b: number, { low, cross, mixed }: Products): Code {
  const lowOf = (local: number): Code => long.and(get(local), i64(LOW_32));
  const highOf = (local: number): Code => long.shr(get(local), 32);
  return [
    ...set(low, long.mul(lowOf(a), lowOf(b))),
    ...set(mixed, long.mul(highOf(a), lowOf(b))),
    ...set(cross, long.add(long.add(highOf(low), lowOf(mixed)), long.mul(lowOf(a), highOf(b)))),
    ...long.xor(
      long.add(long.add(long.mul(highOf(a), highOf(b)), highOf(mixed)), highOf(cross)),
      long.or(long.shl(get(cross), 32), lowOf(low)),
    ),
  ];
}

function fold(): WasmFunction {
  const [a, b, low, cross, mixed] = [0, 1, 2, 3, 4];
  return {
    params: ['i64', 'i64'],
    result: 'i64',
    locals: ['i64', 'i64', 'i64'],
    body: [folded(a, b, { low, cross, mixed })],
  };
}

/** mix(input, secret, seed): 16 bytes of input against 16 of the secret. */
function mix(): WasmFunction {
  const [input, secret, seed] = [0, 1, 2];
  return {
    params: ['i32', 'i32', 'i64'],
    result: 'i64',
    body: [
      call(
        FOLD,
        long.xor(long.load(get(input)), long.add(long.load(get(secret)), get(seed))),
        long.xor(long.load(get(input), 8), long.sub(long.load(get(secret), 8), get(seed))),
      ),
    ],
  };
}

function avalanche(): WasmFunction {
  return {
    params: ['i64'],
    result: 'i64',
    body: [avalanched(get(0), 0)],
  };
}

/** @param local scratch */
function avalanched(value: Code, local: number): Code {
  return xorShift(long.mul(xorShift(value, local, 37), i64(X1)), local, 32);
}

/** stripe(input, secret): 64 bytes into the accumulators. */
function stripe(): WasmFunction {
  const [input, secret, value, keyed] = [0, 1, 2, 3];
  const accumulate = (lane: number, term: Code): Code =>
    long.store(i32(ACCUMULATORS), long.add(long.load(i32(ACCUMULATORS), 8 * lane), term), 8 * lane);
  const lanes = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((lane) => [
    set(value, long.load(get(input), 8 * lane)),
    set(keyed, long.xor(get(value), long.load(get(secret), 8 * lane))),
    accumulate(lane ^ 1, get(value)),
    accumulate(lane, long.mul(long.and(get(keyed), i64(LOW_32)), long.shr(get(keyed), 32))),
  ]);
  return { params: ['i32', 'i32'], locals: ['i64', 'i64'], body: lanes };
}

/** longHash(input, length, seed) for more than 240 bytes. */
function longHash(): WasmFunction {
  const [input, length, seed, at, block, index, value] = [0, 1, 2, 3, 4, 5, 6];
  const lanes = [0, 1, 2, 3, 4, 5, 6, 7];
  const initial = [Q3, P1, P2, P3, P4, Q2, P5, Q1];
  const secretPairs = Array.from({ length: 12 }, (_, pair) => 16 * pair);
  const accumulator = (lane: number): Code => long.load(i32(ACCUMULATORS), 8 * lane);
  const scramble = lanes.map((lane) => {
    const shifted = xorShift(accumulator(lane), value, 47);
    const keyed = long.xor(shifted, long.load(i32(DERIVED), 128 + 8 * lane));
    return long.store(i32(ACCUMULATORS), long.mul(keyed, i64(Q1)), 8 * lane);
  });
  /** Stripes from `at` on while `index` is below `count`. */
  const stripes = (count: Code): Code => [
    ...set(index, i32(0)),
    ...whileTrue(
      int.below(get(index), count),
      call(STRIPE, get(at), int.add(i32(DERIVED), int.mul(get(index), i32(8)))),
      set(at, int.add(get(at), i32(64))),
      set(index, int.add(get(index), i32(1))),
    ),
  ];
  const lastByte = int.sub(get(length), i32(1));
  const merged = [0, 1, 2, 3].map((pair) => {
    const keyed = (half: number): Code =>
      long.xor(accumulator(2 * pair + half), long.load(i32(DERIVED), 11 + 16 * pair + 8 * half));
    return call(FOLD, keyed(0), keyed(1));
  });
  return {
    params: ['i32', 'i32', 'i64'],
    result: 'i64',
    locals: ['i32', 'i32', 'i32', 'i64'],
    body: [
      ...secretPairs.flatMap((offset) => [
        long.store(i32(DERIVED), long.add(k(offset), get(seed)), offset),
        long.store(i32(DERIVED), long.sub(k(offset + 8), get(seed)), offset + 8),
      ]),
      ...initial.map((start, lane) => long.store(i32(ACCUMULATORS), i64(start), 8 * lane)),
      set(at, get(input)),
      set(block, int.shr(lastByte, i32(10))),
      whileTrue(get(block), stripes(i32(16)), ...scramble, set(block, int.sub(get(block), i32(1)))),
      stripes(int.shr(int.and(lastByte, i32(1023)), i32(6))),
      call(STRIPE, int.sub(int.add(get(input), get(length)), i32(64)), i32(DERIVED + 121)),
      call(AVALANCHE, merged.reduce(long.add, long.mul(long.ofInt(get(length)), i64(P1)))),
    ],
  };
}

/** hash(input, length, seed): XXH3-64 of any length. */
function hash(): WasmFunction {
  const [input, length, seed, x, y, at, z, low, cross, mixed] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const n = long.ofInt(get(length));
  const fromEnd = (bytes: number): Code => int.sub(int.add(get(input), get(length)), i32(bytes));
  const mixAt = (address: Code, secret: Code): Code => call(MIX, address, secret, get(seed));
  /** `mixAt` in place, added to `x`: a call would cost blocks of 16 and 32 tokens as much as what it does. */
  const mixIn = (address: Code, secret: number): Code => [
    ...set(y, long.xor(long.load(address), long.add(k(secret), get(seed)))),
    ...set(z, long.xor(long.load(address, 8), long.sub(k(secret + 8), get(seed)))),
    ...set(x, long.add(get(x), folded(y, z, { low, cross, mixed }))),
  ];
  const avalanche64 = (value: Code): Code =>
    xorShift(long.mul(xorShift(long.mul(xorShift(value, x, 33), i64(P2)), x, 29), i64(P3)), x, 32);
  const startSum = set(x, long.mul(n, i64(P1)));
  return {
    params: ['i32', 'i32', 'i64'],
    result: 'i64',
    locals: ['i64', 'i64', 'i32', 'i64', 'i64', 'i64', 'i64'],
    body: [
      when(int.atMost(i32(241), get(length)), giveBack(call(LONG_HASH, get(input), get(length), get(seed)))),
      when(
        int.atMost(i32(129), get(length)),
        startSum,
        ...[0, 1, 2, 3, 4, 5, 6, 7].map((step) => mixIn(int.add(get(input), i32(16 * step)), 16 * step)),
        set(x, call(AVALANCHE, get(x))),
        set(at, i32(128)),
        whileTrue(
          int.atMost(int.add(get(at), i32(16)), get(length)),
          set(x, long.add(get(x), mixAt(int.add(get(input), get(at)), int.sub(get(at), i32(125))))),
          set(at, int.add(get(at), i32(16))),
        ),
        mixIn(fromEnd(16), 119),
        giveBack(call(AVALANCHE, get(x))),
      ),
      when(
        int.atMost(i32(17), get(length)),
        startSum,
        ...[3, 2, 1].map((pair) =>
          when(
            int.atMost(i32(32 * pair + 1), get(length)),
            mixIn(int.add(get(input), i32(16 * pair)), 32 * pair),
            mixIn(fromEnd(16 * (pair + 1)), 32 * pair + 16),
          ),
        ),
        mixIn(get(input), 0),
        mixIn(fromEnd(16), 16),
        giveBack(call(AVALANCHE, get(x))),
      ),
      when(int.atMost(i32(9), get(length)), giveBack(hash9To16(n, fromEnd, { input, seed, x, y, low, cross, mixed }))),
      when(int.atMost(i32(4), get(length)), giveBack(hash4To8(n, fromEnd, { input, seed, x, y }))),
      when(get(length), giveBack(avalanche64(hash1To3Word(n, fromEnd, { input, length, seed })))),
      avalanche64(long.xor(get(seed), long.xor(k(56), k(64)))),
    ],
  };
}

interface HashLocals extends Products {
  readonly input: number;
  readonly seed: number;
  readonly x: number;
  readonly y: number;
}

function hash9To16(n: Code, fromEnd: (bytes: number) => Code, { input, seed, x, y, ...products }: HashLocals): Code {
  return [
    ...set(x, long.xor(long.load(get(input)), lowKey(seed))),
    ...set(y, long.xor(long.load(fromEnd(8)), highKey(seed))),
    ...ofEnds(n, x, y, products),
  ];
}

/** What the first and the last 8 bytes of 9 to 16 are keyed with. */
const lowKey = (seed: number): Code => long.add(long.xor(k(24), k(32)), get(seed));
const highKey = (seed: number): Code => long.sub(long.xor(k(40), k(48)), get(seed));

/** The hash of 9 to 16 bytes, `n` in number, by their keyed ends in `x` and `y`; `x` is used up. */
function ofEnds(n: Code, x: number, y: number, products: Products): Code {
  return avalanched(long.add(long.add(n, byteSwapped(x)), long.add(get(y), folded(x, y, products))), x);
}

function hash4To8(
  n: Code,
  fromEnd: (bytes: number) => Code,
  { input, seed, x, y }: Omit<HashLocals, keyof Products>,
): Code {
  const word = long.add(long.load32(fromEnd(4)), long.shl(long.load32(get(input)), 32));
  return [
    ...set(y, long.xor(get(seed), long.and(byteSwapped(seed), i64(LOW_32 << 32n)))),
    ...set(x, long.xor(word, long.sub(long.xor(k(8), k(16)), get(y)))),
    ...set(x, long.mul(long.xor(get(x), long.xor(long.rotl(get(x), 49), long.rotl(get(x), 24))), i64(X2))),
    ...set(x, long.mul(long.xor(get(x), long.add(long.shr(get(x), 35), n)), i64(X2))),
    ...long.xor(get(x), long.shr(get(x), 28)),
  ];
}

function hash1To3Word(
  n: Code,
  fromEnd: (bytes: number) => Code,
  { input, length, seed }: { readonly input: number; readonly length: number; readonly seed: number },
): Code {
  const middle = long.load8(int.add(get(input), int.shr(get(length), i32(1))));
  const joined = long.or(
    long.or(long.shl(long.load8(get(input)), 16), long.shl(middle, 24)),
    long.or(long.load8(fromEnd(1)), long.shl(n, 8)),
  );
  const key = long.xor(long.load32(i32(SECRET)), long.load32(i32(SECRET), 4));
  return long.xor(joined, long.add(key, get(seed)));
}

function byteSwapped(local: number): Code {
  const swap = (value: Code, bits: number, mask: bigint): Code =>
    long.or(long.shl(long.and(value, i64(mask)), bits), long.and(long.shr(value, bits), i64(mask)));
  return long.rotl(swap(swap(get(local), 8, 0x00ff00ff00ff00ffn), 16, 0x0000ffff0000ffffn), 32);
}

const joinHalves = (low: number, high: number): Code =>
  long.or(long.ofInt(get(low)), long.shl(long.ofInt(get(high)), 32));

/** hashBlocks(input, count, windowBytes, strideBytes, seedLow, seedHigh, output) */
function hashBlocks(): WasmFunction {
  const [input, count, windowBytes, strideBytes, seedLow, seedHigh, output, seed] = [0, 1, 2, 3, 4, 5, 6, 7];
  return {
    name: 'hashBlocks',
    params: ['i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
    locals: ['i64'],
    body: [
      set(seed, joinHalves(seedLow, seedHigh)),
      whileTrue(
        get(count),
        long.store(get(output), call(HASH, get(input), get(windowBytes), get(seed))),
        set(input, int.add(get(input), get(strideBytes))),
        set(output, int.add(get(output), i32(8))),
        set(count, int.sub(get(count), i32(1))),
      ),
    ],
  };
}

/**
 * chain(input, count, parentLow, parentHigh, output, seedLow, seedHigh): every hash joined with the result before it. The hash
 * of such 16 bytes is that of `hash9To16`, without a call: each waits for the one before.
 */
function chain(): WasmFunction {
  const [input, count, parentLow, parentHigh, output, seedLow, seedHigh] = [0, 1, 2, 3, 4, 5, 6];
  const [last, seed, lastKey, inputKey, x, y, low, cross, mixed] = [7, 8, 9, 10, 11, 12, 13, 14, 15];
  return {
    name: 'chain',
    params: ['i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'],
    locals: ['i64', 'i64', 'i64', 'i64', 'i64', 'i64', 'i64', 'i64', 'i64'],
    body: [
      set(seed, joinHalves(seedLow, seedHigh)),
      set(last, joinHalves(parentLow, parentHigh)),
      set(lastKey, lowKey(seed)),
      set(inputKey, highKey(seed)),
      whileTrue(
        get(count),
        set(x, long.xor(get(last), get(lastKey))),
        set(y, long.xor(long.load(get(input)), get(inputKey))),
        set(last, ofEnds(i64(16n), x, y, { low, cross, mixed })),
        long.store(get(output), get(last)),
        set(input, int.add(get(input), i32(8))),
        set(output, int.add(get(output), i32(8))),
        set(count, int.sub(get(count), i32(1))),
      ),
    ],
  };
}

/** The part of WebAssembly that is used here: its types belong to the browser's, which the compiler is not given. */
interface WasmRuntime {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: Readonly<Record<string, unknown>> };
}
const { WebAssembly: wasm } = globalThis as unknown as { readonly WebAssembly: WasmRuntime };

export interface Xxh3Module {
  readonly memory: Uint8Array;
  hashBlocks(
    input: number,
    count: number,
    windowBytes: number,
    strideBytes: number,
    seedLow: number,
    seedHigh: number,
    output: number,
  ): void;
  chain(
    input: number,
    count: number,
    parentLow: number,
    parentHigh: number,
    output: number,
    seedLow: number,
    seedHigh: number,
  ): void;
}

/** Assembles and starts the module, in about a millisecond. */
export function createXxh3Module(pages: number): Xxh3Module {
  const functions = [fold(), mix(), avalanche(), stripe(), longHash(), hash(), hashBlocks(), chain()];
  const { exports } = new wasm.Instance(new wasm.Module(assembleModule(functions, pages)));
  const memory = new Uint8Array((exports.memory as { readonly buffer: ArrayBuffer }).buffer);
  memory.set(Buffer.from(SECRET_HEX, 'hex'), SECRET);
  return {
    memory,
    hashBlocks: exports.hashBlocks as Xxh3Module['hashBlocks'],
    chain: exports.chain as Xxh3Module['chain'],
  };
}
