import { type RendezvousKey, weightOf } from '../router/index.ts';

/** The workers of a pool, by number. */
export interface StatelessFleet {
  readonly ids: readonly string[];
  /** `seedOf` the stable name of each worker, or of its id. */
  readonly seeds: Uint32Array;
  /** Load of each worker, in any unit; infinite = the choice skips it while another is left. */
  readonly loads: Float64Array;
}

/** A key of the prompt, and its share of all traffic. */
export interface DemandedKey {
  readonly key: RendezvousKey;
  /** Share of the traffic, 0 to 1. */
  readonly share: number;
  /** Whether no other conversation was seen with the key, so that it stands for one conversation. */
  readonly isOwn: boolean;
}

export interface StatelessAsk {
  /** Keys, from those that many prompts have to those that few have. */
  readonly levels: readonly DemandedKey[];
  /** Key of the request itself. */
  readonly draw: RendezvousKey;
  /** Load below which the choice skips no worker, in the unit of the loads. */
  readonly slack: number;
}

/** Least number of workers that a key names, so that there are others if one is overloaded. */
const CANDIDATES_MIN = 4;
/** Factor by which demand may exceed its measured share. */
const HEADROOM = 1.25;
/** Factor by which a worker's load may exceed the mean. */
const LOAD_FACTOR = 1.25;
/** Number of workers that are drawn among equals. The less loaded of them takes the request. */
const DRAWN = 2;

/**
 * Chooses among the workers `open` of a fleet, without knowledge of their caches: rendezvous hashing with bounded
 * loads. A key that many prompts have names as many workers as its share of the traffic requires. A deeper key narrows
 * them down, until a key is the conversation's own. That key names one of the workers, the same at every turn. Without
 * such a key, the choice draws a worker.
 *
 *     all workers  --system prompt, half of the traffic-->  5 of 8  --tenant-->  4 of 5  --conversation-->  1 of 4
 *
 * The choice skips a worker with more than 1.25 times the mean load. It is a pure function of its arguments, for any
 * order of `open`: processes with the same view decide alike. When a worker comes or goes, only the requests that it
 * gains or loses move.
 *
 * @param open numbers of the workers that may take the request; at least one
 * @returns the number of one of them
 */
export function chooseStateless(
  { levels, draw, slack }: StatelessAsk,
  fleet: StatelessFleet,
  open: Uint32Array,
): number {
  const bound = boundOf(fleet, open, slack);
  const { set, own } = narrow(levels, fleet, open);
  if (own !== undefined) return heaviestWithin(bound, own, fleet, set, open);
  const two = heaviestOf(DRAWN, draw, fleet, set);
  const least = two.reduce((best, worker) => (loadOf(fleet, worker) < loadOf(fleet, best) ? worker : best));
  return loadOf(fleet, least) <= bound ? least : heaviestWithin(bound, draw, fleet, set, open);
}

/**
 * Returns the workers that are worth asking for a quote. These are the workers to which the conversation's key falls
 * one after another. Without such a key, they are drawn among those that its beginnings name. If these are too few, the
 * rest of `open` follows.
 *
 * @param count largest number of workers, at least one
 */
export function candidatesOf(
  { levels, draw }: StatelessAsk,
  fleet: StatelessFleet,
  open: Uint32Array,
  count: number,
): Uint32Array {
  const idle = open.filter((worker) => loadOf(fleet, worker) < Number.POSITIVE_INFINITY);
  const willing = idle.length > 0 ? idle : open;
  if (willing.length <= count) return willing;
  const { set, own = draw } = narrow(levels, fleet, willing);
  const named = heaviestOf(count, own, fleet, set);
  if (named.length === count) return named;
  const more = heaviestOf(
    count - named.length,
    own,
    fleet,
    willing.filter((worker) => !named.includes(worker)),
  );
  return Uint32Array.of(...named, ...more);
}

/**
 * Returns the workers that the beginnings name, and the conversation's own key, if the request has one, which names one
 * of them.
 */
function narrow(
  levels: readonly DemandedKey[],
  fleet: StatelessFleet,
  open: Uint32Array,
): { readonly set: Uint32Array; readonly own?: RendezvousKey } {
  let set = open;
  for (const { key, share, isOwn } of levels) {
    if (isOwn) return { set, own: key };
    const size = Math.max(CANDIDATES_MIN, Math.ceil(HEADROOM * share * open.length));
    if (size < set.length) set = heaviestOf(size, key, fleet, set);
  }
  return { set };
}

/**
 * Returns the load above which a worker is skipped. At least one open worker is not above it, unless all must be
 * skipped.
 */
function boundOf(fleet: StatelessFleet, open: Uint32Array, slack: number): number {
  let total = 0;
  let count = 0;
  for (const worker of open) {
    const load = loadOf(fleet, worker);
    if (load === Number.POSITIVE_INFINITY) continue;
    total += load;
    count++;
  }
  return (LOAD_FACTOR * total) / Math.max(1, count) + slack;
}

/**
 * Returns the heaviest of `set` with a load up to `bound`, or else of `open`. If all are above it, returns the heaviest
 * of `set`.
 */
function heaviestWithin(
  bound: number,
  key: RendezvousKey,
  fleet: StatelessFleet,
  set: Uint32Array,
  open: Uint32Array,
): number {
  const [heaviest] = heaviestOf(
    1,
    key,
    fleet,
    set.filter((worker) => loadOf(fleet, worker) <= bound),
  );
  if (heaviest !== undefined) return heaviest;
  const [elsewhere] = heaviestOf(
    1,
    key,
    fleet,
    open.filter((worker) => loadOf(fleet, worker) <= bound),
  );
  return elsewhere ?? (heaviestOf(1, key, fleet, set)[0] as number);
}

/**
 * Returns the `count` heaviest of `set`, the heaviest first. Of two equally heavy workers, the one with the smaller id
 * is first.
 */
function heaviestOf(count: number, key: RendezvousKey, { ids, seeds }: StatelessFleet, set: Uint32Array): Uint32Array {
  const weights = Float64Array.from(set, (worker) => weightOf(key, seeds[worker] as number));
  const places = Uint32Array.from(set, (_, place) => place);
  const isBefore = (one: number, other: number): boolean => {
    const difference = (weights[one] as number) - (weights[other] as number);
    return difference !== 0
      ? difference > 0
      : (ids[set[one] as number] as string) < (ids[set[other] as number] as string);
  };
  if (count > FEW) places.sort((one, other) => (isBefore(one, other) ? -1 : 1));
  else for (let place = 0; place < Math.min(count, places.length); place++) bringForward(places, place, isBefore);
  return places.subarray(0, count).map((place) => set[place] as number);
}

/** Number of workers up to which finding them one by one is faster than sorting all. */
const FEW = 8;

/** Moves the item that comes before all others from `start` on to that place. */
function bringForward(places: Uint32Array, start: number, isBefore: (one: number, other: number) => boolean): void {
  let best = start;
  for (let at = start + 1; at < places.length; at++) {
    if (isBefore(places[at] as number, places[best] as number)) best = at;
  }
  const found = places[best] as number;
  places[best] = places[start] as number;
  places[start] = found;
}

function loadOf({ loads }: StatelessFleet, worker: number): number {
  return loads[worker] as number;
}
