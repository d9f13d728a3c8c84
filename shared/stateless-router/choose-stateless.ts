import { type RendezvousKey, weightOf } from '../router/index.ts';

/** Those who can be chosen, by number. */
export interface StatelessFleet {
  readonly ids: readonly string[];
  /** `seedOf` the name that outlives the worker's process, or of its id. */
  readonly seeds: Uint32Array;
  /** What each has to do, in any unit; infinite = it is to be passed over while another is left. */
  readonly loads: Float64Array;
}

/** A key of the prompt, and how much of all traffic has it. */
export interface DemandedKey {
  readonly key: RendezvousKey;
  /** 0 to 1. */
  readonly share: number;
  /** Nobody else was seen with it: it stands for one conversation. */
  readonly isOwn: boolean;
}

export interface StatelessAsk {
  /** From what many prompts have in common to what few have. */
  readonly levels: readonly DemandedKey[];
  /** Of the request itself. */
  readonly draw: RendezvousKey;
  /** Load that is no reason to pass over anybody, in the unit of the loads. */
  readonly slack: number;
}

/** Workers that a key names at least, so that there are others when one has too much to do. */
const CANDIDATES_MIN = 4;
/** Room for demand to be more than it was. */
const HEADROOM = 1.25;
/** How far above the mean a worker may be loaded. */
const LOAD_FACTOR = 1.25;
/** Of those that are as good, so many are drawn, and the one with less to do is taken. */
const DRAWN = 2;

/**
 * Chooses among the workers `open` of a fleet, without knowing what they have cached: rendezvous hashing with bounded
 * loads. A key that many prompts have names as many workers as their share of the traffic takes; a deeper key narrows
 * those down, until one is the conversation's own and names one worker of them, the same at every turn. Where no key
 * is, the request is drawn.
 *
 *     all workers  --system prompt, half of the traffic-->  5 of 8  --tenant-->  4 of those  --conversation-->  1 of those
 *
 * A worker that has more to do than 1.25 times the mean is passed over. A pure function of its arguments whatever the
 * order of `open`: processes with the same view decide alike, and when a worker comes or goes only what it gains or
 * loses moves.
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
 * The workers that are worth being asked what the request would cost there: those that its conversation's key would
 * fall to one after the other, else that many drawn among those that its beginnings name; the rest of `open` where
 * these are fewer.
 *
 * @param count at most so many are named, and at least one
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

/** The workers that the beginnings name, and the key that names one of them where the request has one of its own. */
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

/** At least one of the open workers is not above it, unless all are to be passed over. */
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

/** The heaviest of `set` that is not above `bound`, else of `open`; where all are above it the heaviest of `set`. */
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

/** The `count` heaviest of `set`, the heaviest first; of two as heavy the one with the smaller id goes first. */
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

/** So many are found one by one, faster than by sorting all. */
const FEW = 8;

/** Brings what goes before all from `start` on to that place. */
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
