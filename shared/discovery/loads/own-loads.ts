import type { RankLoad, WorkerLoad } from '../types.ts';
import { packLoads, RANKS_MAX, WORKERS_MAX } from './load-bytes.ts';

const EMPTY = new Uint8Array();
const AMOUNTS = ['requests', 'decodeBlocks', 'prefillTokens'] as const;

/** What the workers of this process carry, as its lease is to say. */
export class OwnLoads {
  readonly #loads = new Map<string, WorkerLoad>(); // at most WORKERS_MAX
  #packed: Uint8Array = EMPTY;

  /** Packed; no bytes while there is no load. The same array until something changes. */
  get packed(): Uint8Array {
    return this.#packed;
  }

  /** True when it changed what there is to tell. Throws a `RangeError` that names what cannot be told; nothing changes then. */
  set(instanceId: string, load: WorkerLoad): boolean {
    assertTellable(instanceId, load);
    if (this.#loads.size >= WORKERS_MAX && !this.#loads.has(instanceId)) {
      throw new RangeError(`load of worker ${instanceId}: a process tells of at most ${WORKERS_MAX} workers`);
    }
    const ranks = load.ranks.map(toWhole);
    this.#loads.set(instanceId, { ranks, isDraining: load.isDraining });
    return this.#pack();
  }

  /** True when there was one. */
  delete(instanceId: string): boolean {
    return this.#loads.delete(instanceId) && this.#pack();
  }

  #pack(): boolean {
    const packed = this.#loads.size === 0 ? EMPTY : packLoads(this.#loads);
    if (Buffer.compare(packed, this.#packed) === 0) return false;
    this.#packed = packed;
    return true;
  }
}

function toWhole({ dpRank, requests, decodeBlocks, prefillTokens }: RankLoad): RankLoad {
  return {
    dpRank,
    requests: Math.ceil(requests),
    decodeBlocks: Math.ceil(decodeBlocks),
    prefillTokens: Math.ceil(prefillTokens),
  };
}

function assertTellable(instanceId: string, { ranks }: WorkerLoad): void {
  const where = `load of worker ${instanceId}`;
  if (!/^[0-9a-f]{1,16}$/.test(instanceId)) throw new RangeError(`${where}: ids are 1 to 16 lower-case hex digits`);
  if (ranks.length > RANKS_MAX) throw new RangeError(`${where}: ${ranks.length} ranks, at most ${RANKS_MAX} are told`);
  for (const rank of ranks) {
    if (!Number.isInteger(rank.dpRank) || rank.dpRank < 0 || rank.dpRank > RANKS_MAX) {
      throw new RangeError(`${where}: rank ${rank.dpRank}, allowed are 0 to ${RANKS_MAX}`);
    }
    for (const name of AMOUNTS) {
      const value = rank[name];
      if (value >= 0 && value <= Number.MAX_SAFE_INTEGER) continue;
      throw new RangeError(`${where}: ${name} of rank ${rank.dpRank} is ${value}, allowed are 0 to 2^53 - 1`);
    }
  }
}
