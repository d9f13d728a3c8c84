import type { EndpointRecord, FleetLoads, HostFacts, WorkerLoad } from '../discovery/index.ts';
import type { RoutableModel, Worker } from '../pipeline/index.ts';
import { loadOf, membersOf, workerRow } from './fleet-rows.ts';
import type { ConsoleWorker } from './wire/worker.ts';

/** Workers that are shown at most. */
export const WORKERS_MAX = 4096;

/** Sources of the rows of workers at one moment. */
export interface WorkersNow {
  readonly models: readonly RoutableModel[];
  readonly loads: FleetLoads;
  readonly instances: ReadonlyMap<string, EndpointRecord>;
  readonly stalled: ReadonlySet<string>;
  /** Number of changes of `stalled`. */
  readonly stalledChanges: number;
}

/** Changes between two samples, as elements of JSON arrays. */
export interface ChangedWorkers {
  /** Rows that are new, or have changed in more than their load. */
  readonly rows: readonly string[];
  /** `[id, requests, kv_blocks, prefill_tokens]` of the others whose load has changed. */
  readonly loads: readonly string[];
  /** Ids. */
  readonly gone: readonly string[];
  /** Whether workers that are not shown have come, gone or registered anew. */
  readonly haveOthersChanged: boolean;
}

type LoadSum = ReturnType<typeof loadOf>;
type Place = Pick<ConsoleWorker, 'model' | 'pool'> & { readonly isStanding: boolean };

/** A worker as it was sampled last. */
interface Shown {
  worker: Worker;
  place: Place;
  record: EndpointRecord | undefined;
  isStalled: boolean;
  load: WorkerLoad | undefined;
  /** Load as all viewers have it. */
  sum: LoadSum;
  /** Number of the sample that it was in. */
  sample: number;
}

/** One sample under way. */
interface Round {
  readonly now: WorkersNow;
  readonly sample: number;
  /** Whether the endpoints are those of the sample before. */
  readonly hasSameInstances: boolean;
  /** Workers that were seen. */
  count: number;
  requests: number | undefined;
  readonly rows: string[];
  readonly loads: string[];
  readonly leftOut: Map<string, EndpointRecord | undefined>;
}

const NO_CHANGE: ChangedWorkers = { rows: [], loads: [], gone: [], haveOthersChanged: false };

/**
 * The workers that all viewers have. Loads change every second at busy workers, so a sample compares them without the
 * rest of the row, and a viewer gets only the numbers. Rows are made when a viewer needs them all.
 */
export class ShownWorkers {
  readonly #shown = new Map<string, Shown>(); // at most WORKERS_MAX
  #sample = 0;
  #taken: WorkersNow | undefined;
  /** Registrations of the workers that are not shown, by id. */
  #leftOut: ReadonlyMap<string, EndpointRecord | undefined> = new Map(); // bounded by the workers in discovery
  #requests: number | undefined;
  #places = new Map<string, Place>(); // by model and pool

  /** Workers beyond the first 4,096. */
  get leftOut(): number {
    return this.#leftOut.size;
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

  /** Returns the sum of the requests that workers report; undefined if none reports any. */
  get requests(): number | undefined {
    return this.#requests;
  }

  /** Returns the machines of all workers as registered, also of those that are not shown: each once, by its id. */
  machines(): { readonly hosts: ReadonlyMap<string, HostFacts>; readonly without: number } {
    const hosts = new Map<string, HostFacts>();
    let without = 0;
    const shown = [...this.#shown.values()].map(({ record }) => record);
    for (const record of [...shown, ...this.#leftOut.values()]) {
      if (record?.host === undefined) without++;
      else hosts.set(record.host.instance_id, record.host);
    }
    return { hosts, without };
  }

  /** Takes a new sample, and returns what has changed since the last one. */
  take(now: WorkersNow): ChangedWorkers {
    const before = this.#taken;
    this.#taken = now;
    if (before !== undefined && isSame(before, now)) return NO_CHANGE;
    const round: Round = {
      now,
      sample: ++this.#sample,
      hasSameInstances: now.instances === before?.instances,
      count: 0,
      requests: undefined,
      rows: [],
      loads: [],
      leftOut: new Map(),
    };
    for (const model of now.models) {
      if (model.name !== model.primaryName || model.baseModel !== undefined) continue;
      for (const { pool, workers, isStanding } of membersOf(model)) {
        const place = this.#placeOf(model.name, pool, isStanding);
        for (const worker of workers) this.#see(worker, place, round);
      }
    }
    this.#requests = round.requests;
    const { sample, count, rows, loads, leftOut } = round;
    const haveOthersChanged = !isSameMap(this.#leftOut, leftOut);
    this.#leftOut = leftOut;
    return { rows, loads, haveOthersChanged, gone: count === this.#shown.size ? [] : this.#dropOlder(sample) };
  }

  /** Compares a worker with the sample before. It makes no object for one that has not changed. */
  #see(worker: Worker, place: Place, round: Round): void {
    const { now, sample } = round;
    const { id } = worker;
    const known = this.#shown.get(id);
    if (known?.sample === sample) return; // a member of two pools
    if (known === undefined && this.#shown.size >= WORKERS_MAX) {
      if (!round.leftOut.has(id)) countRequests(round, loadOf(now.loads.get(id)));
      round.leftOut.set(id, now.instances.get(id));
      return;
    }
    round.count++;
    const isStalled = now.stalled.size > 0 && now.stalled.has(id);
    const record = known !== undefined && round.hasSameInstances ? known.record : now.instances.get(id);
    const load = now.loads.get(id);
    if (
      known === undefined ||
      known.worker !== worker ||
      known.place !== place ||
      known.record !== record ||
      known.isStalled !== isStalled ||
      known.load?.isDraining !== load?.isDraining
    ) {
      const sum = loadOf(load);
      this.#replace(known, { worker, place, record, isStalled, load, sum, sample }, round.rows);
      countRequests(round, sum);
      return;
    }
    known.sample = sample;
    if (known.load !== load) {
      known.load = load;
      takeLoad(known, round.loads);
    }
    countRequests(round, known.sum);
  }

  #replace(known: Shown | undefined, shown: Shown, rows: string[]): void {
    const before = known === undefined ? '' : JSON.stringify(rowOf(known));
    this.#shown.set(shown.worker.id, shown);
    const row = JSON.stringify(rowOf(shown));
    if (row !== before) rows.push(row);
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

/** Whether nothing can have changed: workers that fall silent are noted in one set. */
function isSame(before: WorkersNow, now: WorkersNow): boolean {
  if (before.stalledChanges !== now.stalledChanges || before.instances !== now.instances) return false;
  if (before.loads !== now.loads || before.models.length !== now.models.length) return false;
  return before.models.every((model, at) => model === now.models[at]);
}

function isSameMap<Value>(some: ReadonlyMap<string, Value>, others: ReadonlyMap<string, Value>): boolean {
  return some.size === others.size && [...some].every(([key, value]) => others.has(key) && others.get(key) === value);
}

function countRequests(round: Round, { requests }: LoadSum): void {
  if (requests !== null) round.requests = (round.requests ?? 0) + requests;
}

/** Adds the numbers of a worker if they are others than before. */
function takeLoad(shown: Shown, loads: string[]): void {
  const { requests, kv_blocks: blocks, prefill_tokens: tokens } = shown.sum;
  const sum = loadOf(shown.load);
  if (sum.requests === requests && sum.kv_blocks === blocks && sum.prefill_tokens === tokens) return;
  shown.sum = sum;
  loads.push(`[${JSON.stringify(shown.worker.id)},${sum.requests},${sum.kv_blocks},${sum.prefill_tokens}]`);
}

function rowOf({ worker, place, record, isStalled, load }: Shown): ConsoleWorker {
  return workerRow(worker, { ...place, record, isStalled, load });
}
