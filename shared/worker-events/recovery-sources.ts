import type { Clock } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import type { Discovery, Watch, WatchListener } from '../discovery/index.ts';
import { workerError } from '../errors/index.ts';
import type { Transport } from '../planes/index.ts';
import type { RankId } from '../router/index.ts';
import type { ComponentScope } from './feed-scope.ts';
import { rankOfRecoveryEndpoint } from './kv-events.ts';
import type { RecoveryAnswer, RecoveryClient } from './recovery.ts';

/** Places that answer for the events that a feed has missed. Discovery names them. */
export interface RecoverySources {
  /** Reads the present places and follows changes. Rejects if discovery cannot be read, or the signal aborts. */
  watch(signal: AbortSignal): Promise<Watch>;
  /** Asks for events of a rank. Rejects if nothing answers for it, and as `RecoveryClient` does. */
  query(question: RecoveryQuestion, signal: AbortSignal): Promise<RecoveryAnswer>;
}

/** Question for the events of a rank that a feed has missed. */
export interface RecoveryQuestion extends RankId {
  /** First event; undefined = all blocks of the rank. */
  readonly startEventId: number | undefined;
  /** Publisher that the feed follows, hex; undefined = any. */
  readonly publisherId: string | undefined;
}

export interface RecoverySourcesOptions {
  readonly discovery: Discovery;
  readonly clock: Clock;
  readonly recovery: RecoveryClient;
  /**
   * Called if another process, or another publisher, now answers for a rank.
   * @param publisherId that publisher, hex; undefined = unknown
   */
  onReplaced(rank: RankId, publisherId?: string): void;
}

/** Limit of the wait for the first reading of discovery. */
export const OPEN_MS_MAX = 15_000;

/** Recovery endpoints of Stator's workers: each rank has one at its worker. */
export class RankEndpoints implements RecoverySources {
  readonly #scope: ComponentScope;
  readonly #options: RecoverySourcesOptions;
  readonly #endpoints = new Map<string, Map<number, Transport>>(); // by worker and rank
  readonly #endpointOfKey = new Map<string, RankId>();

  constructor(scope: ComponentScope, options: RecoverySourcesOptions) {
    this.#scope = scope;
    this.#options = options;
  }

  watch(signal: AbortSignal): Promise<Watch> {
    const { namespace, component } = this.#scope;
    const { discovery, clock } = this.#options;
    const query = { bucket: 'v1/instances', prefix: `${namespace}/${component}` } as const;
    const event: WatchListener['event'] = (each) => {
      if (each.kind === 'removed') this.#removed(each.key);
      else if (each.record.type === 'Endpoint') {
        const { endpoint, instance_id: workerId, transport } = each.record;
        const dpRank = rankOfRecoveryEndpoint(endpoint);
        if (dpRank !== undefined) this.#added(each.key, { workerId, dpRank }, transport);
      }
    };
    const deadline = { clock, timeoutMs: OPEN_MS_MAX, signal };
    return withDeadline(deadline, (within) => discovery.watch(query, { event }, within));
  }

  async query({ workerId, dpRank, startEventId }: RecoveryQuestion, signal: AbortSignal): Promise<RecoveryAnswer> {
    const transport = this.#endpoints.get(workerId)?.get(dpRank);
    if (transport === undefined) throw workerError('Unavailable', 'the worker has no recovery endpoint');
    return this.#options.recovery.query(transport, workerId, dpRank, startEventId, signal);
  }

  #added(key: string, rank: RankId, transport: Transport): void {
    const { workerId, dpRank } = rank;
    this.#endpointOfKey.set(key, rank);
    const ofWorker = this.#endpoints.get(workerId) ?? new Map<number, Transport>();
    this.#endpoints.set(workerId, ofWorker);
    const before = ofWorker.get(dpRank);
    ofWorker.set(dpRank, transport);
    if (before !== undefined && addressOf(before) !== addressOf(transport)) this.#options.onReplaced(rank);
  }

  #removed(key: string): void {
    const endpoint = this.#endpointOfKey.get(key);
    if (endpoint === undefined) return;
    this.#endpointOfKey.delete(key);
    const ofWorker = this.#endpoints.get(endpoint.workerId);
    ofWorker?.delete(endpoint.dpRank);
    if (ofWorker?.size === 0) this.#endpoints.delete(endpoint.workerId);
  }
}

function addressOf(transport: Transport): string {
  return Object.values(transport).join();
}
