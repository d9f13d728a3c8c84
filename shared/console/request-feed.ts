import type { RequestFilter } from './request-filter.ts';
import { newest, PAGE_ROWS, type RequestLog, type RequestPage } from './request-log.ts';
import type { WatchedRequest } from './watched-request.ts';
import type { ConsoleChangedRequests, ConsoleRequests } from './wire/requests.ts';

/** Running requests whose end a viewer is sent; the page keeps no more rows. */
const RUNNING_MAX = 10_000;

/**
 * Requests as one viewer gets them. It sends at most 100 further requests at a time, but each change of a request that
 * it has sent while that request ran: the viewer would otherwise show it as running for ever.
 */
export class RequestFeed {
  readonly #log: RequestLog;
  readonly #filter: RequestFilter;
  /** Requests that the viewer shows as running, also if the log has forgotten them since. */
  readonly #running = new Set<WatchedRequest>(); // at most RUNNING_MAX
  #version = 0;
  #added = 0;

  constructor(log: RequestLog, filter: RequestFilter) {
    this.#log = log;
    this.#filter = filter;
  }

  /** Returns everything that the viewer needs. */
  whole(): ConsoleRequests {
    const page = this.#log.page(this.#filter);
    this.#running.clear();
    this.#sent(page.requests);
    return rowsOf(page);
  }

  /** Returns what has changed since the last call of a method; undefined if nothing has. */
  changes(): ConsoleChangedRequests | undefined {
    const known = [...this.#running].filter(({ version }) => version > this.#version);
    const others: WatchedRequest[] = [];
    let isNew = 0;
    for (const request of this.#log.changedSince(this.#version, this.#filter)) {
      if (this.#running.has(request)) continue;
      others.push(request);
      if (request.number >= this.#added) isNew++;
    }
    const further = newest(others, PAGE_ROWS);
    const furtherNew = further.filter(({ number }) => number >= this.#added).length;
    const sent = [...known, ...further].sort((a, b) => b.number - a.number);
    this.#sent(sent);
    if (sent.length === 0) return undefined;
    return { requests: sent.map((request) => request.row()), left_out: isNew - furtherNew };
  }

  #sent(requests: readonly WatchedRequest[]): void {
    this.#version = this.#log.version;
    this.#added = this.#log.added;
    for (const request of requests) {
      if (request.hasEnded) this.#running.delete(request);
      else this.#running.add(request);
    }
    for (const oldest of this.#running) {
      if (this.#running.size <= RUNNING_MAX) break;
      this.#running.delete(oldest);
    }
  }
}

/** Returns a page as viewers get it. */
export function rowsOf({ requests, ...page }: RequestPage): ConsoleRequests {
  return { requests: requests.map((request) => request.row()), ...page };
}
