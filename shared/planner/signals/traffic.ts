import { NO_TRAFFIC, type TrafficTotals } from '../../protocol/index.ts';

/** Names of the totals, in the order in which they are stored. */
export const TRAFFIC_KEYS = Object.keys(NO_TRAFFIC) as (keyof TrafficTotals)[];

/** Adds two totals, key by key. */
export function addTraffic(one: TrafficTotals, other: TrafficTotals): TrafficTotals {
  return Object.fromEntries(TRAFFIC_KEYS.map((key) => [key, one[key] + other[key]])) as TrafficTotals;
}

/**
 * Returns the traffic that a source has counted since `before`; a total that has shrunk counts as unchanged.
 * @param before totals when the source was heard last; undefined for a source that is heard for the first time
 * @param isFirst this is the first message of the source: all of its totals count. Of a source that is met later only
 * what
 *   follows counts, because another process may have counted the rest.
 */
export function trafficSince(before: TrafficTotals | undefined, now: TrafficTotals, isFirst: boolean): TrafficTotals {
  const from = before ?? (isFirst ? NO_TRAFFIC : now);
  return Object.fromEntries(TRAFFIC_KEYS.map((key) => [key, Math.max(0, now[key] - from[key])])) as TrafficTotals;
}
