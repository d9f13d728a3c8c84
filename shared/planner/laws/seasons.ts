/** Part of a day that is remembered as one rate. */
const SLOT_S = 600;
const DAY_S = 86_400;
const SLOTS = DAY_S / SLOT_S;
const DAYS_KEPT = 7;
const DAYS_MIN = 3;
const SHARE = 0.75;

/** Rates at the same times of the last days: plain values, at most a week. Times in seconds since any midnight. */
export interface SeasonalState {
  /** Rates by slot, oldest first; null for a slot without observations. */
  readonly days: readonly { readonly day: number; readonly rates: readonly (number | null)[] }[];
  /** The slot that fills now. */
  readonly slot: number;
  readonly count: number;
  readonly seconds: number;
}

export const NO_SEASON: SeasonalState = { days: [], slot: -1, count: 0, seconds: 0 };

/** Counts requests that began within the seconds before `nowS`. */
export function observeSeason(before: SeasonalState, nowS: number, seconds: number, count: number): SeasonalState {
  const slot = Math.floor(nowS / SLOT_S);
  if (slot === before.slot) return { ...before, count: before.count + count, seconds: before.seconds + seconds };
  // Half a slot says enough of it.
  const days = before.seconds >= SLOT_S / 2 ? kept(before) : before.days;
  return { days, slot, count, seconds: Math.min(seconds, SLOT_S) };
}

function kept({ days, slot, count, seconds }: SeasonalState): SeasonalState['days'] {
  const day = Math.floor(slot / SLOTS);
  const known = days.find((each) => each.day === day);
  const rates = known === undefined ? new Array<number | null>(SLOTS).fill(null) : [...known.rates];
  rates[slot % SLOTS] = Math.round((1000 * count) / seconds) / 1000;
  return [...days.filter((each) => each.day !== day), { day, rates }].slice(-DAYS_KEPT);
}

/**
 * Returns the requests a second that three days of four did not exceed at this time of the day; 0 before three days are
 * known.
 */
export function seasonalRate({ days }: SeasonalState, atS: number): number {
  const today = Math.floor(atS / DAY_S);
  const slot = Math.floor(atS / SLOT_S) % SLOTS;
  const rates = days
    .filter(({ day }) => day < today && day >= today - DAYS_KEPT)
    .flatMap(({ rates: all }) => all[slot] ?? [])
    .toSorted((one, other) => one - other);
  return rates.length < DAYS_MIN ? 0 : rates[Math.ceil(SHARE * rates.length) - 1]!;
}
