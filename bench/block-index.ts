// The block index beside one on maps, on the workload of router.md, section 12.6: about a million blocks in sequences of 256,
// eight of which share their first 64 blocks. Process CPU time. Run by itself (`index`, `maps` or both):
//   npx esbuild bench/block-index.ts --bundle --platform=node --format=esm --outfile=node_modules/.bench-block-index.mjs
//   node --expose-gc node_modules/.bench-block-index.mjs [--quick]
import { createBlockIndex, loadBlockIndex } from '../shared/router/block-index/index.ts';
import { Overlaps } from '../shared/router/overlaps.ts';
import { RankTable } from '../shared/router/rank-table.ts';
import { chainHashes } from '../shared/tokens/index.ts';

const SEQUENCE_BLOCKS = 256;
const SHARED_BLOCKS = 64;
const GROUP = 8;
const SEQUENCES = process.argv.includes('--quick') ? 488 : 3906;
const QUERIES = 20_000;

interface Event {
  readonly rank: number;
  readonly parent: readonly [number, number] | undefined;
  readonly blockHashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
}

/** What both sides can do. */
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

function eventsOf({ locals, names }: Workload, ranks: number, blocksPerEvent: number): Event[] {
  const events: Event[] = [];
  for (const [at, tokens] of locals.entries()) {
    const hashes = names[at] as Uint32Array;
    for (let from = 0; from < SEQUENCE_BLOCKS; from += blocksPerEvent) {
      const range = [2 * from, 2 * (from + blocksPerEvent)] as const;
      events.push({
        rank: at % ranks,
        parent: from === 0 ? undefined : [hashes[2 * from - 2] ?? 0, hashes[2 * from - 1] ?? 0],
        blockHashes: hashes.slice(...range),
        tokensHashes: tokens.slice(...range),
      });
    }
  }
  return events;
}

/** Runs `work` and gives its CPU seconds. */
function cpuSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function tableOf(ranks: number): RankTable {
  const table = new RankTable();
  for (let rank = 0; rank < ranks; rank++) table.intern(rank.toString(16), 0);
  return table;
}

function flatSide(ranks: number): Side & { readonly index: ReturnType<typeof createBlockIndex> } {
  const index = createBlockIndex({ ranks: tableOf(ranks) });
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
      let block = parent === undefined ? root : names.get((BigInt(parent[1]) << 32n) | BigInt(parent[0]));
      if (block === undefined) throw new Error('not stored');
      for (let at = 0; at < blockHashes.length >> 1; at++) {
        const local = hashAt(tokensHashes, at);
        let child = block.children.get(local);
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

function measure(
  name: string,
  make: (ranks: number) => Side,
  workload: Workload,
  ranks: number,
  blocksPerEvent: number,
) {
  const events = eventsOf(workload, ranks, blocksPerEvent);
  for (let warm = 0; warm < 2; warm++) {
    const side = make(ranks);
    for (const event of events.slice(0, events.length >> 4)) side.stored(event);
    for (let at = 0; at < 200; at++)
      side.match(workload.sequences[at] as Uint32Array, workload.locals[at] as Uint32Array);
  }
  collect();
  const memoryBefore = process.memoryUsage();
  const side = make(ranks);
  const storeSeconds = cpuSeconds(() => {
    for (const event of events) side.stored(event);
  });
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
  const hashedSeconds = cpuSeconds(() => {
    for (const { sequence, local } of queries) scores += side.match(sequence, local);
  });
  const localSeconds = cpuSeconds(() => {
    for (const { local } of queries) scores += side.match(chainHashes(local), local);
  });
  if (scores < 15.9 * QUERIES) throw new Error(`${scores} scores`);
  const removeSeconds = cpuSeconds(() => {
    for (const [at, hashes] of workload.names.entries()) {
      const tail = new Uint32Array(2 * 64);
      for (let each = 0; each < 64; each++) tail.set(hashes.subarray(2 * (255 - each), 2 * (256 - each)), 2 * each);
      side.removed(at % ranks, tail);
    }
  });
  return {
    index: name,
    workers: ranks,
    'blocks an event': blocksPerEvent,
    'stored M blocks/s': round(blocks / storeSeconds / 1e6),
    'queries k/s': round(QUERIES / hashedSeconds / 1e3),
    'from local hashes k/s': round(QUERIES / localSeconds / 1e3),
    'removed M blocks/s': round((64 * SEQUENCES) / removeSeconds / 1e6),
    'RSS bytes a block': round((memory.rss - memoryBefore.rss) / blocks),
  };
}

/** CPU of writing and loading, and the longest pauses around them. */
function measureUpkeep(workload: Workload) {
  const side = flatSide(64);
  const { index } = side;
  const events = eventsOf(workload, 64, 16);
  const half = events.length >> 1;
  const pauses = { growth: 0, snapshot: 0, leaving: 0 };
  const timed = (what: keyof typeof pauses, work: () => void): void => {
    const before = performance.now();
    work();
    pauses[what] = Math.max(pauses[what], performance.now() - before);
  };
  const blocks = new Map<number, number>();
  for (const event of events) timed('growth', () => side.stored(event));
  for (const event of events) blocks.set(event.rank, (blocks.get(event.rank) ?? 0) + 16);
  const chunks: Uint8Array[] = [];
  const snapshot = index.snapshot(new Uint8Array(0));
  const writeSeconds = cpuSeconds(() => {
    for (;;) {
      const before = performance.now();
      const chunk = snapshot.next();
      pauses.snapshot = Math.max(pauses.snapshot, performance.now() - before);
      if (chunk.done === true) break;
      chunks.push(chunk.value);
    }
  });
  const bytes = Buffer.concat(chunks);
  for (const chunk of index.snapshot(new Uint8Array(0))) {
    void chunk;
    for (let at = 0; at < 20; at++) {
      const event = events[random32() % half] as Event;
      timed('snapshot', () => index.removed(event.rank, 'device', event.blockHashes.slice(-2)));
      timed(
        'snapshot',
        () => void index.stored(event.rank, 'device', event.parent, event.blockHashes, event.tokensHashes),
      );
    }
  }
  let loaded: ReturnType<typeof loadBlockIndex> | undefined;
  const loads: number[] = [];
  for (let round = 0; round < 3; round++) {
    collect();
    loads.push(
      cpuSeconds(() => {
        loaded = loadBlockIndex(bytes, { ranks: new RankTable() });
        loaded.index.match(
          { local: workload.locals[0] as Uint32Array, sequence: workload.sequences[0] as Uint32Array },
          new Overlaps(64),
        );
      }),
    );
  }
  timed('leaving', () => index.removeRank(3));
  for (let more = true; more; ) timed('leaving', () => (more = index.housekeep()));
  return {
    'snapshot MB': round(bytes.length / 1e6),
    'write CPU ms': round(1e3 * writeSeconds),
    'load CPU ms (3 runs)': loads.map((each) => round(1e3 * each)).join(' '),
    'longest pause ms: growth': round(pauses.growth),
    snapshot: round(pauses.snapshot),
    'rank leaves': round(pauses.leaving),
  };
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}

const rows = [];
const workload = makeWorkload(false);
const only = process.argv[2];
for (const [ranks, blocksPerEvent] of [
  [8, 16],
  [64, 16],
  [8, 1],
  [64, 1],
] as const) {
  if (only === 'upkeep') break;
  if (only !== 'maps') rows.push(measure('typed arrays', flatSide, workload, ranks, blocksPerEvent));
  if (only !== 'index' && ranks === 8) rows.push(measure('maps', mapSide, workload, ranks, blocksPerEvent));
  collect();
}
if (only !== 'maps' && only !== 'upkeep')
  rows.push(measure('typed arrays, other hashes', flatSide, makeWorkload(true), 8, 16));
console.table(rows);
console.table([measureUpkeep(workload)]);
