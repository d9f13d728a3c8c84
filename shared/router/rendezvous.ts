import { fnv1a } from '../records/index.ts';
import type { ReplicaShare } from './scheduler/cost.ts';
import type { RankTable } from './scheduler/ranks.ts';

/** What prompts, sessions or requests have in common: 64 bits, low half first. */
export type RendezvousKey = readonly [low: number, high: number];

/** Key of a text: an id, a session. The same text has the same key in every process. */
export function keyOfText(text: string): RendezvousKey {
  return [fnv1a(text), fnv1a(text, 0x050c5d1f)];
}

/** What the weights of somebody follow from, made once for each name. */
export function seedOf(name: string): number {
  return fnv1a(name);
}

/**
 * Weight of a key at whoever has `seed`: 32 bits that depend on every bit of both. The heaviest of several is the key's own
 * (rendezvous hashing): every process finds the same one, and when somebody comes or goes only the keys that he gains or loses
 * move.
 */
export function weightOf([low, high]: RendezvousKey, seed: number): number {
  return mix(Math.imul(mix(seed ^ low), 0x9e3779b1) ^ high);
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

interface PlacingRouter {
  readonly id: string;
  readonly seed: number;
}

/**
 * Deals the ranks of a pool among the routers that live, without a word between them: each rank goes to one of the routers
 * by rendezvous hashing, so when a router comes or goes only its own ranks move.
 */
export class RendezvousShare implements ReplicaShare {
  readonly #ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>;
  readonly #own: PlacingRouter;
  #routers: readonly PlacingRouter[];
  /** By rank number: the worker it was last worked out for, and the outcome. */
  #workers: (string | undefined)[] = [];
  #owned: boolean[] = [];

  /** @param routerId the same name under which the other routers know this one */
  constructor(ranks: Pick<RankTable, 'workerIdOf' | 'dpRankOf'>, routerId: string) {
    this.#ranks = ranks;
    this.#own = { id: routerId, seed: seedOf(routerId) };
    this.#routers = [this.#own];
  }

  /** The other routers that place requests in the pool now. */
  setOthers(routerIds: readonly string[]): void {
    const others = routerIds.filter((id) => id !== this.#own.id).map((id) => ({ id, seed: seedOf(id) }));
    this.#routers = [this.#own, ...others];
    this.#workers = [];
  }

  isOwn(rank: number): boolean {
    if (this.#routers.length === 1) return true;
    const worker = this.#ranks.workerIdOf(rank);
    if (worker !== this.#workers[rank] || worker === undefined) {
      this.#workers[rank] = worker;
      this.#owned[rank] = this.#isHeaviest(`${worker}/${this.#ranks.dpRankOf(rank)}`);
    }
    return this.#owned[rank] ?? false;
  }

  #isHeaviest(name: string): boolean {
    const key = keyOfText(name);
    const own = weightOf(key, this.#own.seed);
    return this.#routers.every(({ id, seed }) => {
      const weight = weightOf(key, seed);
      return weight < own || (weight === own && id >= this.#own.id);
    });
  }
}
