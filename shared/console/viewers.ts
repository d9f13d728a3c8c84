import type { Clock, Timer } from '../clock/index.ts';
import type { FleetView } from './fleet-view.ts';
import { RequestFeed, rowsOf } from './request-feed.ts';
import type { RequestFilter } from './request-filter.ts';
import type { RequestLog } from './request-log.ts';
import type { ConsoleWorker } from './wire/worker.ts';

/** Interval between two samples while anyone looks, in milliseconds. */
export const SAMPLE_MS = 1000;
/** Samples between two sendings of the last hour. */
const HOUR_TICKS = 10;
/** Silence after which a viewer gets a comment, so that proxies keep its connection, in ticks. */
const QUIET_TICKS = 15;

/** Time for which loads are still followed after a question without a viewer, in milliseconds. */
const REST_MS = 60_000;

/** Time for which a viewer may read nothing before it loses its place, in ticks. */
const BEHIND_TICKS_MAX = 60;

/** View that a viewer wants. */
export type ViewerQuery =
  /** `model`: whose last hour; undefined = of all models */
  | { readonly view: 'fleet'; readonly model: string | undefined }
  | { readonly view: 'requests'; readonly filter: RequestFilter };

/** Place where the events of one viewer go. */
export interface ViewerSink {
  /** Sends text of an event stream. */
  send(text: string): void;
  /** Whether the viewer reads too slowly. */
  isBehind(): boolean;
  /** Cuts the viewer off, and has its adder call the function that ends it. */
  breakOff(): void;
}

interface Viewer {
  readonly query: ViewerQuery;
  readonly sink: ViewerSink;
  /** Its requests; undefined in other views. */
  readonly feed: RequestFeed | undefined;
  /** Whether it has missed a change, so that it needs everything again. */
  hasMissed: boolean;
  behindTicks: number;
  quietTicks: number;
}

/**
 * The viewers of the console. One sample serves all of them, and there is none while no client looks. A viewer that
 * reads too slowly misses changes, and gets everything again once it has caught up. A viewer that reads nothing for a
 * minute is cut off.
 */
export class Viewers {
  readonly #clock: Clock;
  readonly #fleet: FleetView;
  readonly #log: RequestLog;
  readonly #viewers = new Set<Viewer>(); // the caller bounds their number
  #timer: Timer | undefined;
  /** Runs while no viewer follows, after a question. */
  #resting: Timer | undefined;
  #ticks = 0;

  constructor(clock: Clock, fleet: FleetView, log: RequestLog) {
    this.#clock = clock;
    this.#fleet = fleet;
    this.#log = log;
  }

  get size(): number {
    return this.#viewers.size;
  }

  /** Returns what a viewer sees now, as JSON text. */
  now(query: ViewerQuery, before?: number): string {
    if (query.view === 'requests') return JSON.stringify(rowsOf(this.#log.page(query.filter, before)));
    this.#freshen();
    return this.#fleet.whole(query.model);
  }

  /** Returns a worker as it is now; undefined if it is not shown. */
  worker(id: string): ConsoleWorker | undefined {
    this.#freshen();
    return this.#fleet.worker(id);
  }

  /** Sends everything to a viewer, and then what changes. Returns a function that ends this. */
  add(query: ViewerQuery, sink: ViewerSink): () => void {
    const feed = query.view === 'requests' ? new RequestFeed(this.#log, query.filter) : undefined;
    const viewer: Viewer = { query, sink, feed, hasMissed: false, behindTicks: 0, quietTicks: 0 };
    this.#freshen(); // for viewers of requests, too: questions about the fleet are answered from the last sample
    this.#resting?.cancel();
    this.#viewers.add(viewer);
    this.#timer ??= this.#clock.every(SAMPLE_MS, () => this.#tick());
    this.#begin(viewer);
    return () => {
      this.#viewers.delete(viewer);
      if (this.#viewers.size > 0) return;
      this.#timer?.cancel();
      this.#timer = undefined;
      this.#resting?.cancel();
      this.#fleet.rest();
    };
  }

  close(): void {
    this.#timer?.cancel();
    this.#resting?.cancel();
    this.#viewers.clear();
  }

  /** Lets the fleet rest unless another question comes. */
  #restLater(): void {
    this.#resting?.cancel();
    this.#resting = this.#clock.after(REST_MS, () => this.#fleet.rest());
  }

  /** Samples the fleet unless the timer does: the changes of a sample must reach every viewer. */
  #freshen(): void {
    if (this.#timer !== undefined) return;
    this.#fleet.sample();
    this.#restLater();
  }

  #begin(viewer: Viewer): void {
    const { query, feed } = viewer;
    viewer.hasMissed = false;
    viewer.behindTicks = 0;
    this.#send(viewer, query.view, feed === undefined ? this.now(query) : JSON.stringify(feed.whole()));
  }

  #tick(): void {
    this.#ticks++;
    const change = this.#fleet.sample();
    const hours = new Map<string | undefined, string>(); // one text for all viewers of a model
    for (const viewer of this.#viewers) {
      viewer.quietTicks++;
      if (viewer.sink.isBehind()) fallBehind(viewer);
      else if (viewer.hasMissed) this.#begin(viewer);
      else this.#update(viewer, change, hours);
    }
  }

  #update(viewer: Viewer, change: string, hours: Map<string | undefined, string>): void {
    const { query, feed } = viewer;
    if (query.view === 'fleet') {
      this.#send(viewer, 'change', change);
      if (this.#ticks % HOUR_TICKS !== 0) return;
      const hour = hours.get(query.model) ?? JSON.stringify(this.#fleet.hour(query.model));
      hours.set(query.model, hour);
      this.#send(viewer, 'hour', hour);
      return;
    }
    const changed = feed?.changes();
    if (changed !== undefined) this.#send(viewer, 'changed', JSON.stringify(changed));
    else if (viewer.quietTicks >= QUIET_TICKS) {
      viewer.quietTicks = 0;
      viewer.sink.send(': \n\n');
    }
  }

  #send(viewer: Viewer, event: string, json: string): void {
    viewer.quietTicks = 0;
    viewer.sink.send(`event: ${event}\ndata: ${json}\n\n`);
  }
}

/** Notes that a viewer has missed something. One that no longer reads must not keep its place from others. */
function fallBehind(viewer: Viewer): void {
  viewer.hasMissed = true;
  if (++viewer.behindTicks >= BEHIND_TICKS_MAX) viewer.sink.breakOff();
}
