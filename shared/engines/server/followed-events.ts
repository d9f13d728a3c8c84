import { type EventSource, type FollowedRanks, isChosenLater, type ListedRank } from '../kv-stream/event-sources.ts';
import type { Told } from './told.ts';

/** What is known of an engine's KV events, from its command line and from its server. */
export interface KnownEvents {
  /** Undefined for a server that is attached, unless its user has said it. */
  readonly told: Told | undefined;
  /** What the server itself describes; undefined = it has no way to say it, or says that there is none. */
  readonly described: EventSource | undefined;
  /** The same by its ranks. @default none */
  readonly listed?: ReadonlyMap<number, ListedRank>;
  /** Whether it caches prefixes at all. */
  readonly hasCache: boolean;
  /** Ranks that the server shows, in its metrics for example. */
  readonly ranksSeen: number;
}

/** How the events of an engine are followed. */
export interface EventPlan {
  /** Data-parallel ranks that requests may name. */
  readonly ranks: number;
  /** Undefined = none are. */
  readonly followed: { readonly source: EventSource; readonly ranks: FollowedRanks } | undefined;
  /** Why none are, where they were asked for. */
  readonly fault?: string;
}

/** What the engine was told to publish is followed; what its server says of it fills in what nobody could know before. */
export function planEvents({ told, described, listed, hasCache, ranksSeen }: KnownEvents): EventPlan {
  const ranks = Math.max(1, told?.ranks ?? 1, listed?.size ?? 0, ranksSeen);
  const isPart = told !== undefined && (told.local < told.ranks || told.firstRank > 0);
  const count = isPart ? told.local : ranks;
  const first = told?.firstRank ?? Math.min(0, ...(listed?.keys() ?? []));
  const source = told?.events ?? described;
  if (source === undefined) return { ranks, followed: undefined };
  const needsList = told?.events === undefined || isChosenLater(source.endpoint);
  const fault = faultOf(source, { hasCache, count, isListed: (listed?.size ?? 0) > 0 });
  if (fault !== undefined) return { ranks, followed: undefined, fault };
  return { ranks, followed: { source, ranks: { first, count, listed: needsList ? listed : undefined } } };
}

function faultOf(
  { endpoint }: EventSource,
  { hasCache, count, isListed }: { readonly hasCache: boolean; readonly count: number; readonly isListed: boolean },
): string | undefined {
  if (!hasCache) return 'its prefix cache is off';
  if (count === 0) return 'none of its ranks runs on this machine';
  if (endpoint.startsWith('inproc:')) return `${endpoint} does not leave its process`;
  if (isChosenLater(endpoint) && !isListed) {
    return `${endpoint} leaves the port to the system, and this release does not say which: name one in --kv-events-config`;
  }
  return undefined;
}
