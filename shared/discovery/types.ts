import { reasonOf } from '../errors/index.ts';
import type { Bucket } from './keys.ts';
import type { DiscoveryRecord, ModelCard } from './records.ts';

/**
 * Records to list or watch. `prefix` matches whole path segments: `ns/comp` matches `ns/comp/ep/1`, never
 * `ns/component2`.
 */
export interface DiscoveryQuery {
  readonly bucket: Bucket;
  /** Key prefix in unescaped segments joined by `/`; empty = everything in the bucket. */
  readonly prefix: string;
  /**
   * Whether records of Dynamo's own processes come too (`wire`), from a store that both use. Records that were put with
   * that wire are among them.
   * @default false
   */
  readonly includesDynamo?: boolean;
}

export type DiscoveryEvent =
  /** A new or changed record: an upsert. */
  | { readonly kind: 'added'; readonly key: string; readonly record: DiscoveryRecord }
  | { readonly kind: 'removed'; readonly key: string };

export interface Watch {
  close(): void;
}

/** Callbacks of a watch. */
export interface WatchListener {
  event(event: DiscoveryEvent): void;
  /** Called once per outage when the store cannot be read. The known records stay valid. */
  failing?(error: Error): void;
  /** Called when the store can be read again; changes missed meanwhile were delivered as events. */
  recovered?(): void;
}

/** Load of one rank of a worker, as its worker reports it. */
export interface RankLoad {
  readonly dpRank: number;
  /** Running and waiting requests. */
  readonly requests: number;
  /** KV blocks in use. */
  readonly decodeBlocks: number;
  /** Prompt tokens not computed yet. */
  readonly prefillTokens: number;
}

/** Load of a worker: at most 1,024 ranks; amounts are finite and not negative, and reported as whole numbers. */
export interface WorkerLoad {
  readonly ranks: readonly RankLoad[];
  readonly isDraining: boolean;
}

/** Loads by instance id. */
export type FleetLoads = ReadonlyMap<string, WorkerLoad>;

/** Order to a process to leave the fleet: it withdraws its workers, lets their requests end or move, and ends. */
export interface DrainOrder {
  /** Reason in a few words, for the log: 1 to 256 characters. */
  readonly reason: string;
  /** Unix time in milliseconds at which the remaining requests fail. */
  readonly deadlineMs: number;
}

/** A model that was served at least once, whether or not a worker serves it now. */
export interface CatalogueEntry {
  /** Endpoint at which its workers register. */
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
  readonly card: ModelCard;
}

/** Models that outlive their workers. The first worker of each writes it, and it stays until an operator removes it. */
export interface Catalogue {
  /** Calls the listener with the models at once, and after each reading that changed them. */
  watch(listener: (models: readonly CatalogueEntry[]) => void): Watch;
  /** Returns the stored models, by name. Reads the store; not for a request's path. */
  list(signal?: AbortSignal): Promise<readonly CatalogueEntry[]>;
  /**
   * Forgets a model. Returns false if there is no such model. A model with workers stays served, and its next
   * registration stores it again.
   */
  forget(name: string, signal?: AbortSignal): Promise<boolean>;
}

/** Models that the watches of a process show. */
export interface ShownModels {
  /** Whether all models are shown, and will be. */
  readonly isWhole: boolean;
  /**
   * Shows the workers of the model with that name or alias, or of all models. Resolves once the watches show them, or
   * once it is known that no worker serves the model. Returns undefined if the watches show them already. Rejects if
   * the store cannot be read in time. A shown model stays shown.
   */
  show(name: string | undefined, signal?: AbortSignal): Promise<void> | undefined;
}

/**
 * Directory of the fleet. One lease of a process, renewed in the background, holds everything that the process puts;
 * when the process dies, its records vanish within the lease's time to live. Operations reject with `DiscoveryError`,
 * whose message is one line for an operator, or with the reason of an aborted signal.
 */
export interface Discovery {
  /** Name in `--discovery-backend`. */
  readonly backend: string;
  /**
   * Place where processes without a configured place meet; undefined if it is configured, or if there is no such place.
   */
  readonly meetingPlace?: string | undefined;
  /** Whether processes of Dynamo may use the same store. @default false */
  readonly meetsDynamo?: boolean;
  /**
   * Writes or replaces a record under this process's lease; starts renewing with the first one. A record with the wire
   * `dynamo` is written in Dynamo's form, for its processes, by stores that both products use.
   */
  put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void>;
  /** Removes a record of this process. No error if it is gone already; after a failure the record is still there. */
  remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void>;
  /** Models that outlive their workers; undefined for a store without them. */
  readonly catalogue?: Catalogue;
  /** Returns the current live records in key order. Reads the store itself, which is not for a request's path. */
  list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]>;
  /**
   * Delivers the current records as `added`, resolves, then delivers changes until closed. `signal` ends the wait for
   * the current records, never a watch that has begun.
   */
  watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch>;
  /**
   * Resolves once every open watch shows a reading of the store that began at most `maxAgeMs` ago; at once if all do.
   * It is for a process that is frozen between requests, when no timer keeps its watches current. While the store
   * cannot be read, the watches get `failing` and known records stay; this then resolves anyway, after a second at
   * most.
   *
   * A store of many readers is read through a view that is gathered about once a second. Only a reading with `maxAgeMs`
   * 0 shows everything that was written before it.
   *
   * @param shardKey in a fleet of thousands, only the loads of the workers that this text falls to are read; all other
   * loads are then unknown, and `watchLoads` leaves them out
   */
  refresh(maxAgeMs: number, signal?: AbortSignal, shardKey?: string): Promise<void>;
  /**
   * Models that the watches show, in a process that shows only models it is asked for (`showsAskedModels`); absent if
   * all are shown.
   */
  readonly shownModels?: ShownModels | undefined;
  /**
   * Reports that a listed worker could not be reached. Looks in the background whether the worker has left or moved,
   * and if so updates the watches at once. At most one lookup per second, one per worker in five seconds, and none
   * while the store cannot be read. Absent if watches are immediate.
   */
  recheck?(instanceId: string): void;
  /**
   * Sets the current load of a worker of this process. It goes out with the renewals of the lease: at once the first
   * time, then at most once per second while it changes. Never rejects; a load that cannot be written is reported like
   * a failed renewal. It is forgotten when the last record of the worker is removed.
   */
  setLoad(instanceId: string, load: WorkerLoad): void;
  /**
   * Calls the listener with the loads of all live workers as they are known, at once and after each reading that
   * changed them.
   */
  watchLoads(listener: (loads: FleetLoads) => void): Watch;
  /**
   * Orders processes to drain. They read it in the answer of the next renewal of their lease, so within a third of the
   * lease's time to live. The same order may be given again.
   *
   * @param ids workers by their ids, or instances (`HostFacts.instance_id`): then all workers on them
   * @returns ids of the workers whose processes got the order; workers that are not registered get none
   */
  orderDrain(ids: readonly string[], order: DrainOrder, signal?: AbortSignal): Promise<readonly string[]>;
  /** Calls `callback` once for each order to this process, also for one that is known already. */
  onDrainOrdered(callback: (order: DrainOrder) => void): void;
  /**
   * Runs `callback` when this process's lease expired before it could be renewed: others may consider the process gone.
   */
  onLeaseLost(callback: () => void): void;
  /** Runs `callback` when the lease and all records were written again after a loss. */
  onLeaseRegained(callback: () => void): void;
  /** Withdraws everything that this process put, and stops renewing and watching. */
  close(): Promise<void>;
}

/** Called with trouble that no caller waits for: a failed renewal, an unreadable entry, a listener that threw. */
export type ReportProblem = (problem: Error) => void;

/** Calls a listener: each outage once, nothing after it was closed, and its own failures go to the report. */
export class WatchTeller {
  readonly #listener: WatchListener;
  readonly #report: ReportProblem;
  #isFailing = false;
  #isClosed = false;

  constructor(listener: WatchListener, report: ReportProblem) {
    this.#listener = listener;
    this.#report = report;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  event(event: DiscoveryEvent): void {
    this.#tell(() => this.#listener.event(event));
  }

  /** Reports that the store cannot be read; what is known stays. */
  fail(error: Error): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#tell(() => this.#listener.failing?.(error));
  }

  /** Reports that the store was read and every change delivered. */
  succeed(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#tell(() => this.#listener.recovered?.());
  }

  close(): void {
    this.#isClosed = true;
  }

  #tell(deliver: () => void): void {
    if (this.#isClosed) return; // a listener may close its own watch between two events
    try {
      deliver();
    } catch (error) {
      this.#report(new Error(`a discovery listener failed: ${reasonOf(error)}`, { cause: error })); // others go on
    }
  }
}
