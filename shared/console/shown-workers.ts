import type { EndpointRecord, FleetLoads, WorkerLoad } from '../discovery/index.ts';
import type { RoutableModel, Worker } from '../pipeline/index.ts';
import { loadOf, membersOf, workerRow } from './fleet-rows.ts';
import type { ConsoleWorker } from './wire.ts';

/** Workers that are shown at most. */
export const WORKERS_MAX = 4096;

/** Sources of the rows of workers at one moment. */
export interface WorkersNow {
  readonly models: readonly RoutableModel[];
  readonly loads: FleetLoads;
  readonly instances: ReadonlyMap<string, EndpointRecord>;
  readonly stalled: ReadonlySet<string>;
}

/** Changes between two samples, as elements of JSON arrays. */
export interface ChangedWorkers {
  /** Rows that are new, or have changed in more than their load. */
  readonly rows: readonly string[];
  /** `[id, requests, kv_blocks, prefill_tokens]` of the others whose load has changed. */
  readonly loads: readonly string[];
  /** Ids. */
  readonly gone: readonly string[];
}

type Place = Pick<ConsoleWorker, 'model' | 'pool'> & { readonly isStanding: boolean };

/** A worker as it was sampled last. */
interface Shown {
  worker: Worker;
  place: Place;
  record: EndpointRecord | undefined;
  isStalled: boolean;
  load: WorkerLoad | undefined;
  /** Load as all viewers have it. */
  loadText: string;
  /** Number of the sample that it was in. */
  sample: number;
}

/**
 * The workers that all viewers have. Loads change every second at busy workers, so a sample compares them without the
 * rest of the row, and a viewer gets only the numbers. Rows are made when a viewer needs them all.
 */
export class ShownWorkers {
  readonly #shown = new Map<string, Shown>(); // at most WORKERS_MAX
  #sample = 0;
  #leftOut = 0;
  #places = new Map<string, Place>(); // by model and pool

  /** Workers beyond the first 4,096. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Returns all rows as JSON texts. */
  rows(): readonly string[] {
    return [...this.#shown.values()].map((shown) => JSON.stringify(rowOf(shown)));
  }

  /** Returns the row of a worker; undefined if it is not shown. */
  row(id: string): ConsoleWorker | undefined {
    const shown = this.#shown.get(id);
    return shown && rowOf(shown);
  }

  /** Takes a new sample, and returns what has changed since the last one. */
  take({ models, loads, instances, stalled }: WorkersNow): ChangedWorkers {
    const sample = ++this.#sample;
    const changed = { rows: [] as string[], loads: [] as string[] };
    let count = 0;
    this.#leftOut = 0;
    for (const model of models) {
      if (model.name !== model.primaryName || model.baseModel !== undefined) continue;
      for (const { pool, workers, isStanding } of membersOf(model)) {
        const place = this.#placeOf(model.name, pool, isStanding);
        for (const worker of workers) {
          const { id } = worker;
          const known = this.#shown.get(id);
          if (known?.sample === sample) continue; // a member of two pools
          if (known === undefined && this.#shown.size >= WORKERS_MAX) {
            this.#leftOut++;
            continue;
          }
          count++;
          const isStalled = stalled.size > 0 && stalled.has(id);
          const now = { worker, place, record: instances.get(id), isStalled, load: loads.get(id), sample };
          if (known === undefined) this.#add(id, now, changed.rows);
          else update(known, now, changed);
        }
      }
    }
    return { ...changed, gone: count === this.#shown.size ? [] : this.#dropOlder(sample) };
  }

  #add(id: string, now: Omit<Shown, 'loadText'>, rows: string[]): void {
    const shown = { ...now, loadText: loadTextOf(id, now.load) };
    this.#shown.set(id, shown);
    rows.push(JSON.stringify(rowOf(shown)));
  }

  #dropOlder(sample: number): readonly string[] {
    const gone = [...this.#shown].flatMap(([id, shown]) => (shown.sample === sample ? [] : [id]));
    for (const id of gone) this.#shown.delete(id);
    return gone;
  }

  /** Returns the same object for the same place, so that samples can be compared. */
  #placeOf(model: string, pool: Place['pool'], isStanding: boolean): Place {
    const key = `${pool} ${isStanding} ${model}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    if (this.#places.size >= WORKERS_MAX) this.#places = new Map(); // of models that have gone
    const place = { model, pool, isStanding };
    this.#places.set(key, place);
    return place;
  }
}

/** Takes what is now known of a worker, and adds what viewers must learn of it. */
function update(
  shown: Shown,
  now: Omit<Shown, 'loadText'>,
  changed: { readonly rows: string[]; readonly loads: string[] },
): void {
  const { load } = shown;
  const isSame =
    shown.worker === now.worker &&
    shown.place === now.place &&
    shown.record === now.record &&
    shown.isStalled === now.isStalled &&
    load?.isDraining === now.load?.isDraining;
  shown.sample = now.sample;
  if (isSame && load === now.load) return;
  const before = isSame ? '' : JSON.stringify(rowOf(shown));
  Object.assign(shown, now);
  const text = loadTextOf(now.worker.id, now.load);
  if (!isSame) {
    const row = JSON.stringify(rowOf(shown));
    if (row !== before) changed.rows.push(row);
  } else if (text !== shown.loadText) changed.loads.push(text);
  shown.loadText = text;
}

function rowOf({ worker, place, record, isStalled, load }: Shown): ConsoleWorker {
  return workerRow(worker, { ...place, record, isStalled, load });
}

function loadTextOf(id: string, load: WorkerLoad | undefined): string {
  const { requests, kv_blocks: blocks, prefill_tokens: tokens } = loadOf(load);
  return `[${JSON.stringify(id)},${requests},${blocks},${tokens}]`;
}
