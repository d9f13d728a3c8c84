import {
  type EventSource,
  type FollowedRanks,
  isBoundByEngine,
  isChosenLater,
  type ListedRank,
} from '../kv-stream/event-sources.ts';
import type { LaunchFacts } from './launch-facts.ts';

/** Facts about an engine's KV events, from its command line and from its server. */
export interface KnownEvents {
  /** Facts from the command line; undefined for an attached server unless the settings give them. */
  readonly launchFacts: LaunchFacts | undefined;
  /** Publisher that the server itself describes; undefined = it cannot describe one, or has none. */
  readonly described: EventSource | undefined;
  /** Publishers of its ranks. @default none */
  readonly listed?: ReadonlyMap<number, ListedRank>;
  /** Whether the engine caches prefixes at all. */
  readonly hasCache: boolean;
  /** Ranks that the server shows, for example in its metrics. */
  readonly ranksSeen: number;
}

/** Plan for following the events of an engine. */
export interface EventPlan {
  /** Data-parallel ranks that requests may name. */
  readonly ranks: number;
  /** Source that is followed; undefined = none. */
  readonly followed: { readonly source: EventSource; readonly ranks: FollowedRanks } | undefined;
  /** Reason why none is followed although events were requested. */
  readonly fault?: string;
}

/**
 * Plans which events to follow: those that the command line configures; the server's description adds what could not be
 * known before.
 */
export function planEvents({ launchFacts, described, listed, hasCache, ranksSeen }: KnownEvents): EventPlan {
  const ranks = Math.max(1, launchFacts?.ranks ?? 1, listed?.size ?? 0, ranksSeen);
  const first = launchFacts?.firstRank ?? Math.min(0, ...(listed?.keys() ?? []));
  const source = launchFacts?.events ?? described;
  if (source === undefined) return { ranks, followed: undefined };
  const isPart = launchFacts !== undefined && (launchFacts.local < launchFacts.ranks || launchFacts.firstRank > 0);
  // If engines connect to the subscriber, ranks of other machines connect to this one.
  const reachesAll = launchFacts?.firstRank === 0 && !isBoundByEngine(source);
  const count = isPart && !reachesAll ? launchFacts.local : ranks;
  const needsList = launchFacts?.events === undefined || isChosenLater(source.endpoint);
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
    return `${endpoint} lets the system choose the port, and this release does not report it: name one in --kv-events-config`;
  }
  return undefined;
}
