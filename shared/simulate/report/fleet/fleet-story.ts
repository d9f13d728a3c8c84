import type { DecisionRecord, FleetEvent, FleetSample } from '../../../planner/index.ts';
import { joinSamples } from '../../../planner/index.ts';
import { type EndedSample, partOf } from './bins.ts';

/** Prices of a GPU in US$ an hour. */
export interface GpuPrices {
  /** Price of every option that `byOption` does not name. */
  readonly all?: number | undefined;
  /** By option, `1-spot`, or by pool and option, `decode/1-spot`. */
  readonly byOption: Readonly<Record<string, number>>;
}

/** Events and numbers of the fleet of a model during some time, as a report tells them. */
export interface FleetStory {
  readonly namespace: string;
  readonly model: string;
  readonly fromMs: number;
  readonly untilMs: number;
  /** Oldest first. */
  readonly samples: readonly EndedSample[];
  /** Newest first. */
  readonly decisions: readonly DecisionRecord[];
  readonly prices: GpuPrices;
  /** Sentences about what is missing. */
  readonly notes: readonly string[];
}

/** Returns everything that was seen in the time of a story as one sample; undefined if nothing was. */
export function totalOf({ samples, fromMs, untilMs }: FleetStory): FleetSample | undefined {
  return samples
    .flatMap((each) => partOf(each, fromMs, untilMs) ?? [])
    .reduce<FleetSample | undefined>((sum, part) => (sum === undefined ? part : joinSamples(sum, part)), undefined);
}

/** Returns the events of a story, newest first, and the number of those that were not recorded one by one. */
export function eventsOf({ samples, fromMs, untilMs }: FleetStory) {
  const events: readonly FleetEvent[] = samples
    .flatMap(({ sample }) => sample.events)
    .filter(({ atMs }) => atMs >= fromMs && atMs <= untilMs)
    .toSorted((one, other) => other.atMs - one.atMs);
  return { events, leftOut: samples.reduce((total, { sample }) => total + sample.eventsLeftOut, 0) };
}

/** Returns the options that samples name, sorted. */
export function optionsOf(samples: readonly EndedSample[]): readonly string[] {
  return [...new Set(samples.flatMap(({ sample }) => Object.keys(sample.options)))].toSorted();
}

/** Returns the price of a GPU of an option; undefined if it is not known. */
export function priceOf({ all, byOption }: GpuPrices, key: string): number | undefined {
  return byOption[key] ?? byOption[key.slice(key.indexOf('/') + 1)] ?? all;
}

/** Returns the mean of a latency in milliseconds; undefined if none was measured. */
export function meanMs({ count, sumMs }: FleetSample['ttft']): number | undefined {
  return count > 0 ? sumMs / count : undefined;
}

/** Returns the percentage of requests whose latency met its target; undefined if none was measured. */
export function percentMet({ count, met }: FleetSample['ttft']): number | undefined {
  return count > 0 ? 100 * (met / count) : undefined;
}
