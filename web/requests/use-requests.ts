import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleChangedRequests, ConsoleRequest, ConsoleRequests } from '../../shared/console/wire/requests.ts';
import { ask, follow, type LinkState } from '../server.ts';

/** Requests that the page keeps at most, as the server does. */
const KEPT_MAX = 10_000;

/** Requests as the page knows them, the newest first. */
export interface Requests {
  readonly rows: readonly ConsoleRequest[];
  /** Number before which the server has older ones; null = it has none. */
  readonly next: number | null;
  /** Requests that the server remembers. */
  readonly kept: number;
  /** Whether the price of any model is known. */
  readonly hasCosts: boolean;
  /** New requests that the page does not show, because too many came at a time. */
  readonly leftOut: number;
}

/** Follows the requests that match. @param query of `/console/api`, without the view */
export function useRequests(query: string, isPaused: boolean, onLink: (state: LinkState) => void) {
  const [requests, setRequests] = useState<Requests>();
  /** Ends the page that is being loaded. */
  const loading = useRef<AbortController | undefined>(undefined);
  const endLoading = (): void => {
    loading.current?.abort();
    loading.current = undefined;
  };
  useEffect(() => endLoading, [query]); // its rows may not match the next filter
  useEffect(() => {
    if (isPaused) return undefined;
    return follow(`console/api?view=requests${query}`, {
      state: onLink,
      event: ({ name, data }) => {
        const told: unknown = JSON.parse(data);
        if (name === 'requests') {
          endLoading();
          setRequests(first(told as ConsoleRequests));
        }
        if (name !== 'changed') return;
        const change = told as ConsoleChangedRequests;
        setRequests((before) => before && withChanged(before, change, query.includes('&outcome=running')));
      },
    });
  }, [query, isPaused]);
  const loadMore = (): void => {
    if (loading.current !== undefined || requests?.next === null || requests === undefined) return;
    const ending = new AbortController();
    loading.current = ending;
    ask(`console/api?view=requests${query}&before=${requests.next}`, { signal: ending.signal })
      .then(async (response) => {
        const page = (await response.json()) as ConsoleRequests;
        if (ending.signal.aborted) return;
        setRequests((before) => before && { ...before, rows: joined(before.rows, page.requests), next: page.next });
      })
      .catch(() => undefined) // the next scroll asks again
      .finally(() => {
        if (loading.current === ending) loading.current = undefined;
      });
  };
  return { requests, loadMore };
}

function first({ requests, next, kept, has_costs: hasCosts }: ConsoleRequests): Requests {
  return { rows: requests, next, kept, hasCosts, leftOut: 0 };
}

/** @param areRunning whether only running requests are wanted: the server says that one has ended, too */
function withChanged(before: Requests, { requests, left_out }: ConsoleChangedRequests, areRunning: boolean): Requests {
  const rows = joined(before.rows, requests);
  return {
    ...before,
    rows: areRunning ? rows.filter(({ status }) => status === null) : rows,
    leftOut: before.leftOut + left_out,
  };
}

/** Returns both lists as one, the newest first. A row of `news` replaces the row of the same number. */
function joined(rows: readonly ConsoleRequest[], news: readonly ConsoleRequest[]): readonly ConsoleRequest[] {
  const merged: ConsoleRequest[] = [];
  let at = 0;
  for (const row of news) {
    while (at < rows.length && rows[at]!.number > row.number) merged.push(rows[at++]!);
    if (rows[at]?.number === row.number) at++;
    merged.push(row);
  }
  while (at < rows.length) merged.push(rows[at++]!);
  return merged.slice(0, KEPT_MAX);
}
