// The block index beside one on maps: about a million blocks in sequences of 256,
// eight of which share their first 64 blocks. Process CPU time, each row in a process of its own. By itself:
//   npm run bench:part -- bench/block-index.ts [--quick] [--json]
import { execFileSync } from 'node:child_process';
import { BlockIndex, type HashPair } from '../shared/block-index/index.ts';
import { Overlaps } from '../shared/block-index/prefix-index.ts';
import { RankTable } from '../shared/block-index/rank-table.ts';
import { borrowChain, chainHashes } from '../shared/tokens/index.ts';
import { loadBlockIndex } from '../test/support/router/load-block-index.ts';

const SEQUENCE_BLOCKS = 256;
const SHARED_BLOCKS = 64;
const GROUP = 8;
/** From the end of each sequence, leaf first. */
const REMOVED_BLOCKS = 64;
const SEQUENCES = process.argv.includes('--quick') ? 488 : 3906;
const QUERIES = 20_000;
const PASSES = 4;
const RUNS = 5;

interface Event {
  readonly rank: number;
  readonly parent: readonly [number, number] | undefined;
  readonly blockHashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
}

/** Operations of both sides. */
interface Side {
  stored(event: Event): void;
  removed(rank: number, blockHashes: Uint32Array): void;
  match(sequence: Uint32Array, local: Uint32Array): number;
}

interface Workload {
  readonly locals: readonly Uint32Array[];
  readonly sequences: readonly Uint32Array[];
  readonly names: readonly Uint32Array[];
}

let seed = 1;
function random32(): number {
  seed = (seed + 0x9e3779b9) | 0;
  let mixed = seed ^ (seed >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** @param isForeign whether engines name blocks otherwise than we do */
function makeWorkload(isForeign: boolean): Workload {
  const locals: Uint32Array[] = [];
  for (let at = 0; at < SEQUENCES; at++) {
    const local = new Uint32Array(2 * SEQUENCE_BLOCKS).map(() => random32());
    if (at % GROUP !== 0) local.set((locals[at - (at % GROUP)] as Uint32Array).subarray(0, 2 * SHARED_BLOCKS));
    locals.push(local);
  }
  const sequences = locals.map((local) => chainHashes(local));
  return { locals, sequences, names: isForeign ? sequences.map((each) => each.map((half) => ~half)) : sequences };
}

/** Lays each event down in the same arrays, as a decoder does. */
function forEachEvent(
  { locals, names }: Workload,
  ranks: number,
  blocksPerEvent: number,
  sequences: number,
  apply: (event: Event) => void,
): void {
  const blockHashes = new Uint32Array(2 * blocksPerEvent);
  const tokensHashes = new Uint32Array(2 * blocksPerEvent);
  for (let at = 0; at < sequences; at++) {
    const local = locals[at] as Uint32Array;
    const hashes = names[at] as Uint32Array;
    for (let from = 0; from < 2 * SEQUENCE_BLOCKS; from += 2 * blocksPerEvent) {
      for (let word = 0; word < 2 * blocksPerEvent; word++) {
        blockHashes[word] = hashes[from + word] as number;
        tokensHashes[word] = local[from + word] as number;
      }
      const parent = from === 0 ? undefined : ([hashes[from - 2] as number, hashes[from - 1] as number] as const);
      apply({ rank: at % ranks, parent, blockHashes, tokensHashes });
    }
  }
}

/** Runs `work` and gives its CPU seconds. */
function cpuSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** The quickest of some passes: the first ones are not compiled yet, and others may be at work beside. */
function best(work: () => void): number {
  return Math.min(...Array.from({ length: PASSES }, () => cpuSeconds(work)));
}

function tableOf(ranks: number): RankTable {
  const table = new RankTable();
  for (let rank = 0; rank < ranks; rank++) table.intern(rank.toString(16), 0);
  return table;
}

function flatSide(ranks: number): Side & { readonly index: BlockIndex } {
  const index = new BlockIndex({ ranks: tableOf(ranks) });
  const overlaps = new Overlaps(ranks);
  return {
    index,
    stored: ({ rank, parent, blockHashes, tokensHashes }) => {
      if (index.stored(rank, 'device', parent, blockHashes, tokensHashes) !== 'ok') throw new Error('not stored');
    },
    removed: (rank, blockHashes) => {
      if (index.removed(rank, 'device', blockHashes) !== 'ok') throw new Error('not removed');
    },
    match: (sequence, local) => {
      index.match({ local, sequence }, overlaps);
      return overlaps.count;
    },
  };
}

interface MapBlock {
  readonly children: Map<bigint, MapBlock>;
  readonly holders: Set<number>;
}

/** A tree of maps and sets, as one would write it first. */
function mapSide(ranks: number): Side {
  const root: MapBlock = { children: new Map(), holders: new Set() };
  const byName = Array.from({ length: ranks }, () => new Map<bigint, MapBlock>());
  const hashAt = (pairs: Uint32Array, at: number): bigint =>
    (BigInt(pairs[2 * at + 1] as number) << 32n) | BigInt(pairs[2 * at] as number);
  return {
    stored: ({ rank, parent, blockHashes, tokensHashes }) => {
      const names = byName[rank] as Map<bigint, MapBlock>;
      let block: MapBlock | undefined =
        parent === undefined ? root : names.get((BigInt(parent[1]) << 32n) | BigInt(parent[0]));
      if (block === undefined) throw new Error('not stored');
      for (let at = 0; at < blockHashes.length >> 1; at++) {
        const local = hashAt(tokensHashes, at);
        let child: MapBlock | undefined = block.children.get(local);
        if (child === undefined) {
          child = { children: new Map(), holders: new Set() };
          block.children.set(local, child);
        }
        child.holders.add(rank);
        names.set(hashAt(blockHashes, at), child);
        block = child;
      }
    },
    removed: (rank, blockHashes) => {
      const names = byName[rank] as Map<bigint, MapBlock>;
      for (let at = 0; at < blockHashes.length >> 1; at++) {
        names.get(hashAt(blockHashes, at))?.holders.delete(rank);
        names.delete(hashAt(blockHashes, at));
      }
    },
    match: (_, local) => {
      const scores = new Map<number, number>();
      let block: MapBlock | undefined = root;
      for (let at = 0; at < local.length >> 1; at++) {
        block = block.children.get(hashAt(local, at));
        if (block === undefined) break;
        for (const rank of block.holders) if ((scores.get(rank) ?? 0) === at) scores.set(rank, at + 1);
      }
      return scores.size;
    },
  };
}

function collect(): void {
  (globalThis as { readonly gc?: () => void }).gc?.();
}

function measure(make: (ranks: number) => Side, workload: Workload, ranks: number, blocksPerEvent: number) {
  const storeAll = (side: Side, sequences: number): void =>
    forEachEvent(workload, ranks, blocksPerEvent, sequences, (event) => side.stored(event));
  for (let warm = 0; warm < 3; warm++) {
    const side = make(ranks);
    storeAll(side, SEQUENCES >> 4);
    for (let at = 0; at < SEQUENCES >> 4; at++) {
      side.match(workload.sequences[at] as Uint32Array, workload.locals[at] as Uint32Array);
    }
  }
  collect();
  const memoryBefore = process.memoryUsage();
  const side = make(ranks);
  const storeSeconds = cpuSeconds(() => storeAll(side, SEQUENCES));
  collect();
  const memory = process.memoryUsage();
  const blocks = SEQUENCES * SEQUENCE_BLOCKS;
  const queries = Array.from({ length: QUERIES }, () => {
    const at = random32() % SEQUENCES;
    const length = 64 + (random32() % 192);
    return {
      local: (workload.locals[at] as Uint32Array).slice(0, 2 * length),
      sequence: (workload.sequences[at] as Uint32Array).slice(0, 2 * length),
    };
  });
  let scores = 0;
  const hashedSeconds = best(() => {
    for (const { sequence, local } of queries) scores += side.match(sequence, local);
  });
  const localSeconds = best(() => {
    for (const { local } of queries) scores += side.match(borrowChain(local), local);
  });
  if (scores < 2 * PASSES * 7.9 * QUERIES) throw new Error(`${scores} scores`);
  const tails = workload.names.map((hashes) => {
    const tail = new Uint32Array(2 * REMOVED_BLOCKS);
    for (let each = 0; each < REMOVED_BLOCKS; each++) {
      const at = SEQUENCE_BLOCKS - 1 - each;
      tail.set(hashes.subarray(2 * at, 2 * at + 2), 2 * each);
    }
    return tail;
  });
  const removeSeconds = cpuSeconds(() => {
    for (const [at, tail] of tails.entries()) side.removed(at % ranks, tail);
  });
  return {
    'stored M blocks/s': round(blocks / storeSeconds / 1e6),
    'queries k/s': round(QUERIES / hashedSeconds / 1e3),
    'from local hashes k/s': round(QUERIES / localSeconds / 1e3),
    'removed M blocks/s': round((REMOVED_BLOCKS * SEQUENCES) / removeSeconds / 1e6),
    'RSS bytes a block': round((memory.rss - memoryBefore.rss) / blocks),
  };
}

/**
 * Wall time of each slice of some work, which is the same in every run: the shortest of the runs, as others are at
 * work.
 */
class Slices {
  readonly #shortestMs: number[] = [];
  #at = 0;

  begin(): void {
    this.#at = 0;
  }

  time(work: () => void): void {
    const before = performance.now();
    work();
    const tookMs = performance.now() - before;
    this.#shortestMs[this.#at] = Math.min(tookMs, this.#shortestMs[this.#at] ?? tookMs);
    this.#at++;
  }

  get longestMs(): number {
    return this.#shortestMs.reduce((longest, each) => Math.max(longest, each), 0);
  }
}

/** CPU of writing and loading a snapshot, and the longest slices of what goes on beside requests. */
function measureUpkeep(workload: Workload) {
  const slices = { growth: new Slices(), snapshot: new Slices(), leaving: new Slices(), loading: new Slices() };
  let bytes = Buffer.alloc(0);
  let writeSeconds = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run++) {
    seed = 7;
    for (const each of Object.values(slices)) each.begin();
    const side = flatSide(10);
    const { index } = side;
    forEachEvent(workload, 10, 16, SEQUENCES, (event) => slices.growth.time(() => side.stored(event)));
    const chunks: Uint8Array[] = [];
    writeSeconds = Math.min(
      writeSeconds,
      cpuSeconds(() => {
        for (const chunk of index.snapshot()) chunks.push(chunk);
      }),
    );
    bytes = Buffer.concat(chunks);
    snapshotBesideEvents(index, workload, slices.snapshot);
    slices.leaving.time(() => index.removeRank(3));
    for (let isMore = true; isMore; ) {
      slices.leaving.time(() => {
        isMore = index.housekeep();
      });
    }
  }
  const loads = Array.from({ length: RUNS }, () => {
    loadBesideRequests(bytes, slices.loading);
    const copy = Uint8Array.from(bytes);
    collect();
    return cpuSeconds(() => {
      const index = loadBlockIndex(copy, { ranks: new RankTable() });
      const [local, sequence] = [workload.locals[0] as Uint32Array, workload.sequences[0] as Uint32Array];
      index.match({ local, sequence }, new Overlaps(64));
    });
  });
  return {
    'snapshot MB': round(bytes.length / 1e6),
    'write CPU ms': round(1e3 * writeSeconds),
    'load CPU ms': round(1e3 * Math.min(...loads)),
    'longest slice ms, stores while the table grows': round(slices.growth.longestMs),
    'longest slice ms, chunks and events beside them': round(slices.snapshot.longestMs),
    'longest slice ms, a rank of 100 k blocks leaves': round(slices.leaving.longestMs),
    'longest slice ms, a snapshot is loaded': round(slices.loading.longestMs),
  };
}

const WIDE_CHILDREN = process.argv.includes('--quick') ? 10_000 : 100_000;
const WIDE_RANKS = 100;
const SYSTEM_BLOCKS = 40;

/** One system prompt that many ranks hold, and conversations of ten blocks below it, each held by one of the others. */
function wideIndex(): { readonly index: BlockIndex; readonly system: Uint32Array; readonly locals: Uint32Array } {
  const index = new BlockIndex({ ranks: tableOf(WIDE_RANKS) });
  const locals = new Uint32Array(2 * SYSTEM_BLOCKS).map((_, at) => at + 1);
  const system = chainHashes(locals);
  const last = system.slice(-2) as unknown as HashPair;
  for (let rank = 0; rank < WIDE_RANKS; rank++) index.stored(rank, 'device', undefined, system, locals);
  for (let at = 0; at < WIDE_CHILDREN; at++) {
    const own = new Uint32Array(20).map((_, word) => 20 * at + word + 1000);
    index.stored(1 + (at % (WIDE_RANKS - 1)), 'device', last, chainHashes(own, last), own);
  }
  return { index, system, locals };
}

/** Wall time of the longest slice of what removals from the middle and dumps of wide trees cost. */
function measureWide() {
  const slices = { leaf: new Slices(), middle: new Slices(), beside: new Slices(), dump: new Slices() };
  const overlaps = new Overlaps(WIDE_RANKS);
  let cpu = 0;
  for (let run = 0; run < RUNS; run++) {
    for (const each of Object.values(slices)) each.begin();
    const { index, system, locals } = wideIndex();
    const chat = new Uint32Array(2 * SYSTEM_BLOCKS + 20);
    const sweep = (times: Slices): void => {
      for (let isMore = true; isMore; ) {
        times.time(() => {
          isMore = index.housekeep();
        });
        slices.beside.time(() => index.match({ local: chat, sequence: system }, overlaps));
      }
    };
    // Rank 0 holds another prompt, too, so that a look is needed to see that nothing of its own is below.
    index.stored(0, 'device', undefined, Uint32Array.of(7, 7), Uint32Array.of(7, 7));
    slices.leaf.time(() => index.removed(0, 'device', system.slice(-2)));
    sweep(slices.leaf);
    const dump = index.dump(1);
    for (let isOver = false; !isOver; ) {
      slices.dump.time(() => {
        isOver = dump.next().done === true;
      });
    }
    // Everything below goes: of one rank that holds a hundredth of it, then of one that comes to hold it all.
    slices.middle.time(() => index.removed(1, 'device', system.slice(0, 2)));
    sweep(slices.middle);
    const whole = new BlockIndex({ ranks: tableOf(1) });
    whole.stored(0, 'device', undefined, system, locals);
    const last = system.slice(-2) as unknown as HashPair;
    for (let at = 0; at < WIDE_CHILDREN; at++) {
      const own = new Uint32Array(20).map((_, word) => 20 * at + word + 1000);
      whole.stored(0, 'device', last, chainHashes(own, last), own);
    }
    const branches = whole.dump(0);
    for (let isOver = false; !isOver; ) {
      slices.dump.time(() => {
        isOver = branches.next().done === true;
      });
    }
    cpu = cpuSeconds(() => {
      slices.middle.time(() => whole.removed(0, 'device', system.slice(0, 2)));
      for (let isMore = true; isMore; ) {
        slices.middle.time(() => {
          isMore = whole.housekeep();
        });
      }
    });
  }
  return {
    'blocks below one': 10 * WIDE_CHILDREN,
    'CPU ms, all of them go with it': round(1e3 * cpu),
    'longest slice ms, one who holds none of them removes it': round(slices.leaf.longestMs),
    'longest slice ms, a block goes from the middle': round(slices.middle.longestMs),
    'longest slice ms, queries beside that': round(slices.beside.longestMs),
    'longest slice ms, dumps of wide trees': round(slices.dump.longestMs),
  };
}

/** As a router that serves takes over another index: requests are routed between the slices. */
function loadBesideRequests(bytes: Uint8Array, slices: Slices): void {
  const index = new BlockIndex({ ranks: tableOf(10) });
  slices.begin();
  const loading = index.read(Uint8Array.from(bytes));
  for (let isLast = false; !isLast; ) {
    slices.time(() => {
      const slice = loading.next();
      if (slice.done === true) index.replaceBy(slice.value);
      isLast = slice.done === true;
    });
  }
}

/** Removals and stores all over the index between the chunks, so that pages are copied. */
function snapshotBesideEvents(index: BlockIndex, { locals, names }: Workload, slices: Slices): void {
  const snapshot = index.snapshot();
  for (let isLast = false; !isLast; ) {
    slices.time(() => {
      isLast = snapshot.next().done === true;
    });
    for (let each = 0; each < 20; each++) {
      const at = random32() % SEQUENCES;
      const name = names[at] as Uint32Array;
      const parent = name.slice(-4, -2) as unknown as HashPair;
      slices.time(() => {
        index.removed(at % 10, 'device', name.slice(-2));
        index.stored(at % 10, 'device', parent, name.slice(-2), (locals[at] as Uint32Array).slice(-2));
      });
    }
  }
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}

interface Row {
  readonly side: 'typed arrays' | 'maps';
  readonly workers: number;
  readonly blocksAnEvent: number;
  readonly isForeign: boolean;
}

const SIDES: readonly Row['side'][] = ['typed arrays', 'maps'];
const ROWS: readonly Row[] = (
  [
    [8, 16, false],
    [64, 16, false],
    [8, 1, false],
    [64, 1, false],
    [8, 16, true],
  ] as const
).flatMap(([workers, blocksAnEvent, isForeign]) => SIDES.map((side) => ({ side, workers, blocksAnEvent, isForeign })));

function inChild(what: string): Record<string, number> {
  const [program = '', ...given] = process.argv.slice(1); // the bundle, not this file
  const args = ['--expose-gc', program, ...given, '--child', what];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

function main(): void {
  const child = process.argv.indexOf('--child');
  const what = process.argv[child + 1] ?? '';
  if (child < 0) {
    const rows = ROWS.map((row, at) => ({ ...row, ...inChild(`${at}`) }));
    const upkeep = inChild('upkeep');
    const wide = inChild('wide');
    if (process.argv.includes('--json')) console.log(JSON.stringify({ rows, upkeep, wide }));
    else for (const each of [rows, upkeep, wide]) console.table(each);
    return;
  }
  const row = ROWS[Number(what)];
  const result =
    row === undefined
      ? what === 'wide'
        ? measureWide()
        : measureUpkeep(makeWorkload(false))
      : measure(row.side === 'maps' ? mapSide : flatSide, makeWorkload(row.isForeign), row.workers, row.blocksAnEvent);
  console.log(JSON.stringify(result));
}

main();
