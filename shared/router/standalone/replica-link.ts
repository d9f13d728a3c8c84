import type { Clock } from '../../clock/index.ts';
import { asRecord } from '../../records/index.ts';
import { type ActiveSequenceEvent, ReplicaSync } from '../state/index.ts';
import type { PeerObserver } from './peers.ts';
import { isConnectable } from './rank-listeners.ts';
import { ServiceError } from './service-error.ts';

/** Carries messages between the replicas of a service; they are lost where nobody listens. */
export interface ReplicaLink {
  publish(message: unknown): void;
  /** Hears what the replica at `endpoint` publishes. */
  connect(endpoint: string): void;
  disconnect(endpoint: string): void;
}

/** What one pool of workers has booked, and how it is told and heard. */
export type ReplicaPool = Pick<ReplicaSync, 'tell' | 'receive' | 'close'>;

/** Keeps the load of a service's replicas equal, pool by pool. */
export class ReplicaPools {
  readonly #link: ReplicaLink;
  readonly #routerId: string;
  readonly #clock: Clock;
  readonly #pools = new Map<string, ReplicaPool>();

  /** @param routerId of this replica, hex */
  constructor(link: ReplicaLink, routerId: string, clock: Clock) {
    this.#link = link;
    this.#routerId = routerId;
    this.#clock = clock;
  }

  /** The pool of a model and group; `apply` hears what other replicas did. */
  open(model: string, group: string, apply: (event: ActiveSequenceEvent) => void): ReplicaPool {
    const pool = new ReplicaSync({
      publisher: {
        publish: (events) => this.#link.publish({ model_name: model, routing_group: group, events }),
      },
      routerId: this.#routerId,
      clock: this.#clock,
      apply,
    });
    this.#pools.set(keyOf(model, group), pool);
    return {
      tell: (event) => pool.tell(event),
      receive: (payload) => pool.receive(payload),
      close: () => {
        pool.close();
        this.#pools.delete(keyOf(model, group));
      },
    };
  }

  /** A message of another replica; pools that this one does not have are passed over. */
  receive(message: unknown): void {
    const { model_name: model, routing_group: group, events } = asRecord(message) ?? {};
    if (typeof model === 'string' && typeof group === 'string') this.#pools.get(keyOf(model, group))?.receive(events);
  }

  /** Listens to replicas as they are registered. */
  get peerObserver(): PeerObserver {
    return {
      added: (endpoint) => {
        if (!isConnectable(endpoint)) throw new ServiceError(400, `${endpoint} is not tcp://host:port or ipc://path`);
        this.#link.connect(endpoint);
      },
      removed: (endpoint) => this.#link.disconnect(endpoint),
    };
  }
}

function keyOf(model: string, group: string): string {
  return JSON.stringify([model, group]);
}
