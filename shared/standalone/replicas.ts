import { randomBytes } from 'node:crypto';
import { pack, Unpackr } from 'msgpackr';
import { Publisher, Subscriber } from 'zeromq';
import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import { LARGE_RECORD_BYTES, readSliced, refuseOpenListener } from '../planes/index.ts';
import { asRecord } from '../records/index.ts';
import { type ActiveSequenceEvent, ReplicaSync } from '../router-state/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { ServiceError } from './body-fields.ts';
import { poolKey } from './pools.ts';
import { isConnectable } from './rank-listeners.ts';
import { OK, type Route, route, type ServiceSettings } from './service.ts';

const PEERS_MAX = 256;

/** Notified of peers that are added and removed. */
export interface PeerObserver {
  /** Throws if the address is not usable. */
  added(url: string): void;
  removed(url: string): void;
}

/** The addresses of the other replicas of a service, in the order of registration. */
export class Peers {
  readonly #urls = new Set<string>();
  readonly #observer: PeerObserver | undefined;

  /** @param urls known at the start */
  constructor(urls: readonly string[] = [], observer?: PeerObserver) {
    this.#observer = observer;
    for (const url of urls) this.add(url);
  }

  /** Idempotent. @throws ServiceError 503 at the bound */
  add(url: string): void {
    if (this.#urls.has(url)) return;
    if (this.#urls.size >= PEERS_MAX) throw new ServiceError(503, `more than ${PEERS_MAX} peers`);
    this.#observer?.added(url);
    this.#urls.add(url);
  }

  /** @throws ServiceError 404 */
  remove(url: string): void {
    if (!this.#urls.delete(url)) throw new ServiceError(404, `${url} is not a peer`);
    this.#observer?.removed(url);
  }

  list(): readonly string[] {
    return [...this.#urls];
  }
}

/**
 * Returns the routes that register replicas with each other, under `prefix`; the body has the address as `url` or
 * `endpoint`.
 */
export function peerRoutes(prefix: string, peers: Peers): Route[] {
  const change = (path: string, status: number, apply: (url: string) => void): Route =>
    route('POST', `${prefix}${path}`, async (call) => {
      const body = await call.body();
      apply(body.has('endpoint') ? body.text('endpoint') : body.text('url'));
      return { status, json: OK };
    });
  return [
    change('/register_peer', 201, (url) => peers.add(url)),
    change('/deregister_peer', 200, (url) => peers.remove(url)),
    route('GET', `${prefix}/peers`, () => ({ status: 200, json: peers.list() })),
  ];
}

/** Carries messages between the replicas of a service; a message without a subscriber is lost. */
export interface ReplicaLink {
  publish(message: unknown): void;
  /** Subscribes to the replica at `endpoint`. */
  connect(endpoint: string): void;
  disconnect(endpoint: string): void;
}

/** The bookings of one pool of workers, as they are sent to and received from replicas. */
export type ReplicaPool = Pick<ReplicaSync, 'tell' | 'receive' | 'close'>;

/** Keeps the load of a service's replicas equal, pool by pool. */
export class ReplicaPools {
  readonly #link: ReplicaLink;
  readonly #routerId: string;
  readonly #clock: Clock;
  readonly #pools = new Map<string, ReplicaPool>();

  /** @param routerId id of this replica, in hex */
  constructor(link: ReplicaLink, routerId: string, clock: Clock) {
    this.#link = link;
    this.#routerId = routerId;
    this.#clock = clock;
  }

  /** Opens the pool of a model and group; `apply` is called with the changes of other replicas. */
  open(model: string, group: string, apply: (event: ActiveSequenceEvent) => void): ReplicaPool {
    const pool = new ReplicaSync({
      publisher: {
        publish: (events) => this.#link.publish({ model_name: model, routing_group: group, events }),
      },
      routerId: this.#routerId,
      clock: this.#clock,
      apply,
    });
    this.#pools.set(poolKey(model, group), pool);
    return {
      tell: (event) => pool.tell(event),
      receive: (payload) => pool.receive(payload),
      close: () => {
        pool.close();
        this.#pools.delete(poolKey(model, group));
      },
    };
  }

  /** Applies a message of another replica; ignores pools that this replica does not have. */
  receive(message: unknown): void {
    const { model_name: model, routing_group: group, events } = asRecord(message) ?? {};
    if (typeof model === 'string' && typeof group === 'string') this.#pools.get(poolKey(model, group))?.receive(events);
  }

  /** Subscribes to replicas as they are registered. */
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

/** The open connections of a service to its replicas. */
export interface OpenReplicas {
  readonly pools: ReplicaPools;
  close(): Promise<void>;
}

/** Opens the service's own socket; the others are added by `--service-peers` and by the routes of replica sync. */
export async function openReplicas(
  { serviceHost: host, serviceSyncPort: port, planeOpen: open }: ServiceSettings,
  clock: Clock,
  logger: Logger,
): Promise<OpenReplicas> {
  const name = 'the sync port (ZeroMQ, which authenticates no peer)';
  const remedies = ['leave STATOR_ROUTER_SERVICE_SYNC_PORT out', 'set STATOR_ROUTER_SERVICE_HOST=127.0.0.1'];
  const listener = { name, address: host, protectedBy: undefined, open, remedies };
  const refusal = port === undefined ? undefined : refuseOpenListener(listener);
  if (refusal !== undefined) throw new Error(refusal);
  const link = await openReplicaLink({ host, port, logger }, (message) => pools.receive(message));
  const pools = new ReplicaPools(
    link,
    randomBytes(8)
      .toString('hex')
      .replace(/^0+(?=.)/, ''),
    clock,
  );
  if (link.endpoint !== undefined) logger.info('publishing to replicas', { endpoint: link.endpoint });
  return { pools, close: link.close };
}

/**
 * Maximum number of messages that wait for a slow replica. Later ones are lost; what they would free ends by the time
 * limit of requests.
 */
const HIGH_WATER_MARK = 100_000;
/** Maximum length of another replica's message; a longer one ends its connection. */
const MESSAGE_BYTES_MAX = 8 << 20;

export interface ZmqReplicaLink extends ReplicaLink {
  /** Address that other replicas connect to; undefined if this one only subscribes. */
  readonly endpoint: string | undefined;
  close(): Promise<void>;
}

/** Connects replicas by ZeroMQ: each publishes on its own port and subscribes to the others. */
export async function openReplicaLink(
  options: { readonly host: string; readonly port: number | undefined; readonly logger: Logger },
  onMessage: (message: unknown) => void,
): Promise<ZmqReplicaLink> {
  const { host, port, logger } = options;
  const publisher = port === undefined ? undefined : new Publisher({ linger: 0, sendHighWaterMark: HIGH_WATER_MARK });
  await publisher?.bind(`tcp://${host}:${port}`);
  const subscriber = new Subscriber({
    ...{ linger: 0, receiveHighWaterMark: HIGH_WATER_MARK, maxMessageSize: MESSAGE_BYTES_MAX },
  });
  subscriber.subscribe();
  let sending: Promise<void> = Promise.resolve();
  const reading = readAll(subscriber, onMessage, logger);
  return {
    endpoint: publisher?.lastEndpoint ?? undefined,
    publish: (message) => {
      if (publisher === undefined) return;
      const bytes = pack(message);
      sending = sending
        .then(() => publisher.send(bytes)) // one send at a time
        .catch((error: unknown) => logger.warn('a change was not published to replicas', { reason: reasonOf(error) }));
    },
    connect: (endpoint) => subscriber.connect(endpoint),
    disconnect: (endpoint) => subscriber.disconnect(endpoint),
    close: async () => {
      await sending;
      publisher?.close();
      subscriber.close();
      await reading;
    },
  };
}

async function readAll(subscriber: Subscriber, onMessage: (message: unknown) => void, logger: Logger): Promise<void> {
  const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, copyBuffers: true });
  for (;;) {
    let frame: Buffer | undefined;
    try {
      [frame] = await subscriber.receive();
    } catch {
      return; // closed: receive() has no time limit that could pass
    }
    try {
      const bytes = frame ?? Buffer.alloc(0);
      onMessage(bytes.length > LARGE_RECORD_BYTES ? await readSliced(bytes) : unpackr.unpack(bytes));
    } catch (error) {
      logger.warn('message of a replica cannot be read', { reason: reasonOf(error) });
    }
  }
}
