import type { BlockHashes } from '../../tokens/index.ts';
import type { ReplicaShare } from './cost.ts';
import type { RankTable } from './ranks.ts';

/** A worker that can be chosen. */
export interface StatelessWorker {
  /** Instance id, lower-case hex. */
  readonly id: string;
  /** What its weight follows from, in place of its id: a worker that restarts under a new id keeps its prefixes. @default id */
  readonly stableId?: string | undefined;
  /** A whole number, not negative; the same unit for all: requests, or blocks. */
  readonly load: number;
}

/** Hash of a prompt's first blocks, low half first. */
export type PrefixKey = readonly [low: number, high: number];

/** Prompts that have this many leading blocks in common meet at one worker. */
const PREFIX_BLOCKS = 8;
/** How far above the mean a worker may be loaded. */
const LOAD_FACTOR = 1.25;

/** Key of the first 8 blocks of a prompt, or of all when there are fewer; undefined when it has not one complete block. */
export function prefixKeyOf({ sequence }: Pick<BlockHashes, 'sequence'>): PrefixKey | undefined {
  const blocks = Math.min(PREFIX_BLOCKS, sequence.length >> 1);
  if (blocks === 0) return undefined;
  return [sequence[2 * blocks - 2]!, sequence[2 * blocks - 1]!]; // a sequence hash covers all blocks before it
}

/** Key of a request without a prefix, from its id: the same request goes to the same worker when it is tried again. */
export function requestKeyOf(requestId: string): PrefixKey {
  return [hashText(requestId, 0x811c9dc5), hashText(requestId, 0x050c5d1f)];
}

/**
 * Bounded-load rendezvous hashing (design, "Stateless"): every worker has a weight that follows from the key and its id; the
 * heaviest one takes the request unless it would be loaded above `loadFactor` times the mean, in which case the next one does.
 * A pure function of its arguments, whatever the order of `workers`, so that all functions agree; and when a worker comes or
 * goes, only the keys that it gains or loses move. Undefined without workers.
 *
 * @param loadFactor 1 or more; 1 = strictly the least loaded ones. @default 1.25
 */
export function chooseByRendezvous<Worker extends StatelessWorker>(
  key: PrefixKey,
  workers: readonly Worker[],
  loadFactor = LOAD_FACTOR,
): Worker | undefined {
  const boundLoad = loadBound(workers, loadFactor);
  let chosen: Worker | undefined;
  let heaviest = -1;
  for (const worker of workers) {
    if (worker.load + 1 > boundLoad) continue;
    const weight = weightOf(key, worker.stableId ?? worker.id);
    if (weight < heaviest || (weight === heaviest && chosen !== undefined && chosen.id < worker.id)) continue;
    chosen = worker;
    heaviest = weight;
  }
  return chosen;
}

/** The load that no worker goes above with one request more. At least one worker is always below it. */
export function loadBound(workers: readonly StatelessWorker[], loadFactor = LOAD_FACTOR): number {
  let total = 1;
  let least = Number.POSITIVE_INFINITY;
  for (const { load } of workers) {
    total += load;
    if (load < least) least = load;
  }
  return Math.max(Math.ceil((Math.max(1, loadFactor) * total) / Math.max(1, workers.length)), least + 1);
}

/** 32 bits that depend on every bit of key and id. */
function weightOf([low, high]: PrefixKey, id: string): number {
  return mix(Math.imul(mix(hashText(id, 0x811c9dc5) ^ low), 0x9e3779b1) ^ high);
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** FNV-1a, 32 bits. */
function hashText(text: string, seed: number): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

/**
 * Deals the ranks of a pool among the routers that live, without a word between them: each rank goes to one of the routers
 * by rendezvous hashing, so when a router comes or goes only its own ranks move.
 */
export class RendezvousShare implements ReplicaShare {
  readonly #ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>;
  readonly #own: StatelessWorker;
  #routers: readonly StatelessWorker[];
  /** By rank number: the worker it was last worked out for, and the outcome. */
  #workers: (string | undefined)[] = [];
  #owned: boolean[] = [];

  /** @param routerId the same name under which the other routers know this one */
  constructor(ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>, routerId: string) {
    this.#ranks = ranks;
    this.#own = { id: routerId, load: 0 };
    this.#routers = [this.#own];
  }

  /** The other routers that place requests in the pool now. */
  setOthers(routerIds: readonly string[]): void {
    this.#routers = [this.#own, ...routerIds.filter((id) => id !== this.#own.id).map((id) => ({ id, load: 0 }))];
    this.#workers = [];
  }

  isOwn(rank: number): boolean {
    if (this.#routers.length === 1) return true;
    const worker = this.#ranks.workerIdOf(rank);
    if (worker !== this.#workers[rank] || worker === undefined) {
      this.#workers[rank] = worker;
      const key = requestKeyOf(`${worker}/${this.#ranks.dpRankOf(rank)}`);
      this.#owned[rank] = chooseByRendezvous(key, this.#routers) === this.#own;
    }
    return this.#owned[rank] ?? false;
  }
}
