import type { Routing } from '../routing/index.ts';
import type { ConsoleFrontends } from './wire/fleet.ts';

/** Other routers that are shown, those with the most bookings first. */
const OTHERS_MAX = 64;

/** Returns what is known of the other frontends. @param workerRequests requests that workers report */
export function frontendsOf(peers: Routing['peers'], workerRequests: number | undefined): ConsoleFrontends {
  const { routerId, bookings } = peers?.() ?? {};
  const others =
    bookings &&
    [...bookings].map(([id, count]) => ({ router_id: id, bookings: count })).sort((a, b) => b.bookings - a.bookings);
  return {
    router_id: routerId ?? null,
    worker_requests: workerRequests ?? null,
    others: others?.slice(0, OTHERS_MAX) ?? null,
    left_out: Math.max(0, (others?.length ?? 0) - OTHERS_MAX),
  };
}
