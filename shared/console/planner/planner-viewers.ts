import type { Clock, Timer } from '../../clock/index.ts';
import { type OpenOnce, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { askWhatIf, type LawAnswer, PlannerStoreError, type WhatIf } from '../../planner/index.ts';
import type { ViewerSink } from '../viewers.ts';
import { chooseGroup, type OwnNameOf, type WantedGroup } from './groups.ts';
import { PlannerView } from './planner-view.ts';
import type { PlannerRecords } from './reader.ts';
import type { ConsoleLawAnswer, ConsoleWhatIf, WhatIfBody } from './wire.ts';

/** Interval between two readings while anyone looks, in milliseconds. A planner ticks as often. */
export const READ_EVERY_MS = 5000;
/** Readings for which a viewer may read nothing before it loses its place. */
const BEHIND_MAX = 12;
/** Views that are kept without viewers, for clients that ask again and again. */
const IDLE_MAX = 8;
/** Longest time for a question, in milliseconds. */
const ASK_MS_MAX = 5000;

interface Viewer {
  readonly view: PlannerView;
  readonly sink: ViewerSink;
  /** Whether it needs everything. */
  needsAll: boolean;
  behind: number;
}

/**
 * Viewers of what planners have recorded. One reading every five seconds serves all viewers of a model, and there is
 * none while no client looks. A viewer that reads too slowly gets everything again once it has caught up, and is cut
 * off after a minute.
 */
export class PlannerViewers {
  readonly #clock: Clock;
  readonly #howToStart: string;
  readonly #records: OpenOnce<PlannerRecords> | undefined;
  readonly #ownNameOf: OwnNameOf;
  readonly #viewers = new Set<Viewer>(); // the caller bounds their number
  readonly #views = new Map<string, PlannerView>(); // those with viewers, and at most IDLE_MAX more
  readonly #readings = new Map<PlannerView, Promise<void>>(); // those under way
  #timer: Timer | undefined;

  /**
   * @param howToStart how to start a planner whose records are there, as a sentence
   * @param records those of the planners; undefined: this process knows of none. Their owner closes them
   * @param ownNameOf by default, models have one name
   */
  constructor(
    clock: Clock,
    howToStart: string,
    records: OpenOnce<PlannerRecords> | undefined,
    ownNameOf: OwnNameOf = (model) => model,
  ) {
    this.#clock = clock;
    this.#howToStart = howToStart;
    this.#records = records;
    this.#ownNameOf = ownNameOf;
  }

  get size(): number {
    return this.#viewers.size;
  }

  /** Returns what a viewer sees now, as JSON text: at most five seconds old. */
  async now(wanted: string): Promise<string> {
    const view = this.#viewOf(wanted);
    if (view.ageMs >= READ_EVERY_MS) await this.#read(view);
    return view.whole();
  }

  /** Sends everything to a viewer, and then what changes. Returns a function that ends this. */
  add(wanted: string, sink: ViewerSink): () => void {
    const view = this.#viewOf(wanted);
    const viewer: Viewer = { view, sink, needsAll: true, behind: 0 };
    this.#viewers.add(viewer);
    this.#timer ??= this.#clock.every(READ_EVERY_MS, () => this.#readAll());
    if (view.ageMs < READ_EVERY_MS) begin(viewer);
    else void this.#read(view);
    return () => {
      this.#viewers.delete(viewer);
      if (this.#viewers.size > 0) return;
      this.#timer?.cancel();
      this.#timer = undefined;
    };
  }

  /**
   * Asks the law with other bounds. Nothing changes.
   * @returns undefined if there is no such model
   * @throws WhatIfRefusal, PlannerConfigError, PlannerStoreError
   */
  async ask({ group: wanted = '', ...bounds }: WhatIfBody, signal: AbortSignal): Promise<ConsoleWhatIf | undefined> {
    const records = this.#records;
    if (records === undefined) return undefined;
    const within = { clock: this.#clock, timeoutMs: ASK_MS_MAX, signal };
    const read = withDeadline(within, async (each) => {
      const store = await records.get();
      const group = await chooseGroup(store, await store.groups(each), this.#wantedOf(wanted), each);
      const stored = group === undefined ? undefined : await store.readState(group, each);
      return group === undefined || stored === undefined ? undefined : { group, ...stored };
    });
    const found = await read.catch((thrown: unknown) => {
      throw thrown instanceof PlannerStoreError ? thrown : unreadable(thrown);
    });
    if (found === undefined) return undefined;
    const given = Object.entries(bounds).filter(([, value]) => value !== undefined);
    return { group: found.group, ...answered(askWhatIf(found.state, Object.fromEntries(given))) };
  }

  close(): void {
    this.#timer?.cancel();
    this.#viewers.clear();
  }

  #wantedOf(name: string): WantedGroup {
    return { name, ownNameOf: this.#ownNameOf };
  }

  #viewOf(wanted: string): PlannerView {
    const known = this.#views.get(wanted);
    if (known !== undefined) return known;
    const shown = new Set([...this.#viewers].map(({ view }) => view));
    const idle = [...this.#views].filter(([, view]) => !shown.has(view));
    for (const [name] of idle.slice(0, Math.max(0, idle.length - IDLE_MAX + 1))) this.#views.delete(name);
    const view = new PlannerView(this.#clock, this.#howToStart, this.#records, this.#wantedOf(wanted));
    this.#views.set(wanted, view);
    return view;
  }

  #readAll(): void {
    for (const view of new Set([...this.#viewers].map((viewer) => viewer.view))) void this.#read(view);
  }

  /** Reads a view, and sends what has changed to its viewers. Readings at the same time are one. Never rejects. */
  #read(view: PlannerView): Promise<void> {
    const reading = this.#readings.get(view) ?? this.#readOnce(view).finally(() => this.#readings.delete(view));
    this.#readings.set(view, reading);
    return reading;
  }

  async #readOnce(view: PlannerView): Promise<void> {
    const change = await view.read();
    for (const viewer of this.#viewers) {
      if (viewer.view !== view) continue;
      if (viewer.sink.isBehind()) fallBehind(viewer);
      else if (viewer.needsAll) begin(viewer);
      else send(viewer, 'planned', change);
    }
  }
}

function unreadable(thrown: unknown): PlannerStoreError {
  return new PlannerStoreError('unavailable', `they cannot be read: ${reasonOf(thrown)}`, thrown);
}

function begin(viewer: Viewer): void {
  viewer.needsAll = false;
  send(viewer, 'planner', viewer.view.whole());
}

function send(viewer: Viewer, event: string, json: string): void {
  viewer.behind = 0;
  viewer.sink.send(`event: ${event}\ndata: ${json}\n\n`);
}

/** Notes that a viewer has missed something. One that no longer reads must not keep its place from others. */
function fallBehind(viewer: Viewer): void {
  viewer.needsAll = true;
  if (++viewer.behind >= BEHIND_MAX) viewer.sink.breakOff();
}

function answered({ atMs, present, other, notes }: WhatIf): Omit<ConsoleWhatIf, 'group'> {
  return { at_ms: atMs, present: answerOf(present), other: answerOf(other), notes: [...notes], changed: false };
}

function answerOf({ now, targets, decides, reason, settled, pools }: LawAnswer): ConsoleLawAnswer {
  const rows = Object.entries(pools).map(([pool, { limitedBy, ...figures }]) => {
    return [pool, { ...figures, limited_by: limitedBy ?? null }] as const;
  });
  return {
    now: { ...now },
    targets: { ...targets },
    decides,
    reason,
    settled: settled === undefined ? null : { ...settled },
    pools: Object.fromEntries(rows),
  };
}
