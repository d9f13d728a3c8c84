import { reasonOf } from '../errors/index.ts';
import type { Bucket } from './keys.ts';
import type { DiscoveryRecord, ModelCard } from './records.ts';

/** What to list or watch. `prefix` matches whole path segments: `ns/comp` matches `ns/comp/ep/1`, never `ns/component2`. */
export interface DiscoveryQuery {
  readonly bucket: Bucket;
  /** Key prefix in unescaped segments joined by `/`; empty = everything in the bucket. */
  readonly prefix: string;
}

export type DiscoveryEvent =
  /** New, or changed: an upsert. */
  | { readonly kind: 'added'; readonly key: string; readonly record: DiscoveryRecord }
  | { readonly kind: 'removed'; readonly key: string };

export interface Watch {
  close(): void;
}

/** How the watcher hears of changes. */
export interface WatchListener {
  event(event: DiscoveryEvent): void;
  /** The store cannot be read; what is known stays valid. Called once per outage. */
  failing?(error: Error): void;
  /** The store can be read again; changes missed meanwhile were delivered as events. */
  recovered?(): void;
}

/** What one rank of a worker carries, as its worker says. */
export interface RankLoad {
  readonly dpRank: number;
  /** Running and waiting. */
  readonly requests: number;
  /** KV blocks in use. */
  readonly decodeBlocks: number;
  /** Prompt tokens not computed yet. */
  readonly prefillTokens: number;
}

/** At most 1,024 ranks; amounts are finite and not negative, and told as whole numbers. */
export interface WorkerLoad {
  readonly ranks: readonly RankLoad[];
  readonly isDraining: boolean;
}

/** By instance id. */
export type FleetLoads = ReadonlyMap<string, WorkerLoad>;

/** A model that was served once, whether or not a worker serves it now. */
export interface CatalogueEntry {
  /** Where its workers register. */
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
  readonly card: ModelCard;
}

/** The models that outlive their workers: written by the first worker of each, kept until somebody forgets them. */
export interface Catalogue {
  /** Tells the models at once as they are known, and after each reading that changed them. */
  watch(listener: (models: readonly CatalogueEntry[]) => void): Watch;
  /** What is stored now, by name. Reads the store; not for a request's path. */
  list(signal?: AbortSignal): Promise<readonly CatalogueEntry[]>;
  /** False when there is no such model. One that is served stays served, and known again with its next registration. */
  forget(name: string, signal?: AbortSignal): Promise<boolean>;
}

/** The models that the watches of a process show. */
export interface ShownModels {
  /** All are shown, and will be. */
  readonly isWhole: boolean;
  /**
   * Shows who serves the model of that name or alias, or all models. Resolves once the watches tell it, or nobody is known to serve it;
   * undefined where they do already. Rejects when the store cannot be read in time. What was shown once stays shown.
   */
  show(name: string | undefined, signal?: AbortSignal): Promise<void> | undefined;
}

/**
 * Who serves what. Everything a process puts is held by one lease of that process, renewed in the background; when the
 * process dies its records vanish within the lease's time to live. Operations reject with `DiscoveryError`, whose message
 * is one line for an operator, or with the reason of an aborted signal.
 */
export interface Discovery {
  /** Its name in `--discovery-backend`. */
  readonly backend: string;
  /** Where processes meet that were not told where; undefined where they were, or where there is no such place. */
  readonly meetingPlace?: string | undefined;
  /** Writes or replaces a record under this process's lease; starts renewing with the first one. */
  put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void>;
  /** Removes a record of this process. No error when it is gone already; after a failure the record is still there. */
  remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void>;
  /** What outlives the workers; undefined where nothing does. */
  readonly catalogue?: Catalogue;
  /** Live records only, in key order, as of now: reads the store itself, which is not for a request's path. */
  list(query: DiscoveryQuery, signal?: AbortSignal): Promise<DiscoveryRecord[]>;
  /**
   * Delivers the present set as `added`, resolves, then delivers changes until closed. `signal` ends the wait for the present
   * set, never a watch that has begun.
   */
  watch(query: DiscoveryQuery, listener: WatchListener, signal?: AbortSignal): Promise<Watch>;
  /**
   * Resolves once every open watch shows a reading of the store that began at most `maxAgeMs` ago; at once where one does.
   * For a process that is frozen between requests, in which time no timer keeps its watches current. While the store cannot
   * be read, the watches are told `failing`, what is known stays, and this resolves all the same after a second at most.
   *
   * A store of many readers is read through a view that is gathered about once a second; only with `maxAgeMs` 0 does a reading
   * show everything that was written before it.
   *
   * @param shardKey in a fleet of thousands the loads of those workers alone are read that this text falls to; all others are
   *   then not known, and `watchLoads` leaves them out
   */
  refresh(maxAgeMs: number, signal?: AbortSignal, shardKey?: string): Promise<void>;
  /** Which models the watches show, in a process that shows those alone it is asked for (`showsAskedModels`); absent where all are. */
  readonly shownModels?: ShownModels | undefined;
  /**
   * A worker that is listed could not be reached: looks in the background whether it has left or moved, and tells the watches at
   * once where it has. At most one lookup a second, each worker once in five seconds, none while the store cannot be read.
   * Absent where watches are immediate.
   */
  recheck?(instanceId: string): void;
  /**
   * What a worker of this process carries now. Goes out with the renewals of the lease: at once at first, then at most once a
   * second while it changes. Never rejects; what cannot be written is told like a failed renewal. Forgotten with the last
   * record of the worker that is removed.
   */
  setLoad(instanceId: string, load: WorkerLoad): void;
  /** Tells the loads of all live workers as they are known, at once and after each reading that changed them. */
  watchLoads(listener: (loads: FleetLoads) => void): Watch;
  /** Runs `callback` when this process's lease expired before it could be renewed: others may take it for gone. */
  onLeaseLost(callback: () => void): void;
  /** Runs `callback` when the lease and all records were written again after a loss. */
  onLeaseRegained(callback: () => void): void;
  /** Withdraws everything this process put and stops renewing and watching. */
  close(): Promise<void>;
}

/** Told of trouble that no caller waits for: a failed renewal, an unreadable entry, a listener that threw. */
export type ReportProblem = (problem: Error) => void;

/** Tells a listener what it is to hear: outages once each, nothing after it was closed, and its failures to somebody else. */
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

  /** The store cannot be read; what is known stays. */
  fail(error: Error): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#tell(() => this.#listener.failing?.(error));
  }

  /** The store was read, and every change told. */
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
