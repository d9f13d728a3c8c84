import { type Random, systemRandom } from '../../../clock/index.ts';
import { forAtMost } from '../../../concurrency/index.ts';
import { workerError } from '../../../errors/index.ts';
import { encodeSegment } from '../../event/types.ts';
import type { NatsClient } from '../../nats/client.ts';
import type { NatsMessage } from '../../nats/messages.ts';
import type { NatsSubscription } from '../../nats/types.ts';
import { ClientCall } from '../client-call.ts';
import type { ByteChannel, CallTarget, Dial } from '../frames/byte-channel.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ConnectionPool } from '../frames/pool.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import { type ConnectionOptions, type ConnectionSettings, withDefaults } from '../frames/settings.ts';
import type {
  Call,
  CallSink,
  PlaneHandler,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  ServeOptions,
  Transport,
} from '../types.ts';
import { decodeMessage, encodeMessage, MessageKind, NatsChannel } from './channel.ts';

const NO_RESPONDERS = 503;

const REQUEST_TIMEOUT_MS = 10_000;

/** Settings of the NATS plane: those of its channels, and a connection. */
export interface NatsRequestPlaneOptions extends Omit<ConnectionOptions, 'requestTimeoutMs'> {
  /** The plane's own connection; closed with it. */
  readonly client: NatsClient;
  /** @default systemRandom */
  readonly random?: Random;
  /** Deadline of PROLOGUE after OPEN (`DYN_NATS_REQUEST_TIMEOUT_SECS`). @default 10000 */
  readonly requestTimeoutMs?: number;
}

/**
 * The NATS request plane: the frames of the TCP plane over channels of messages. Both are the same protocol: credit,
 * heartbeats, draining, and one TOKENS frame for all streams of an engine step. It is for fleets whose workers cannot
 * be dialled. NATS delivers at most once. A lost message, or a lost server, ends the streams of its channel with
 * `Disconnected`, and they are retried as after any lost connection.
 *
 * @example const plane = createNatsRequestPlane({ clock: systemClock, client: new NatsClient({ ... }) });
 */
export function createNatsRequestPlane(options: NatsRequestPlaneOptions): RequestPlane {
  const { client, random = systemRandom, ...rest } = options;
  const settings = withDefaults({ requestTimeoutMs: REQUEST_TIMEOUT_MS, ...rest });
  const { clock, observer } = settings;
  const pool = new ConnectionPool(settings, new CallerChannels(client, random).dial);
  return {
    name: 'nats',
    hasBroker: true,
    /** Waits for the server without a limit, because a worker that cannot be reached has nothing to announce. */
    async serve(serveOptions: ServeOptions): Promise<PlaneServer> {
      await client.connected(serveOptions.signal ?? new AbortController().signal); // ends also when the plane is closed
      return new NatsPlaneServer({ client, settings, random, ...serveOptions });
    },
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => pool.open({ call, target: readNatsTarget(transport), request }));
      return call;
    },
    sibling({ nats_tcp: subject = '' }: Transport, endpoint: string): Transport | undefined {
      const parts = SUBJECT.exec(subject)?.groups;
      return parts && { nats_tcp: `${parts.ns}_${parts.component}.${endpoint}-${parts.instance}` };
    },
    absence: () => client.absence,
    async close() {
      pool.close();
      await client.close();
    },
  };
}

/**
 * The calling side. A channel is a pair of subjects: the endpoint's, and one below this caller's own inbox, which is
 * the reply subject of everything that it sends. So the server itself reports if the endpoint has no receiver.
 */
class CallerChannels {
  readonly dial: Dial<NatsTarget> = (target, onBytes) => this.#open(target, onBytes);
  readonly #client: NatsClient;
  readonly #inbox: string;
  readonly #channels = new Map<string, NatsChannel>();
  #isSubscribed = false;
  #opened = 0;

  constructor(client: NatsClient, random: Random) {
    this.#client = client;
    this.#inbox = `_INBOX.${random.instanceId()}${random.instanceId()}`;
    client.watch({ away: (reason) => this.#loseAll(reason) });
  }

  #open(target: NatsTarget, onBytes: (bytes: Buffer) => void): ByteChannel {
    this.#subscribe();
    const address = `${this.#inbox}.${(this.#opened++).toString(36)}`;
    const attempt = new AbortController();
    const channel = new NatsChannel({
      send: (message) => this.#client.send(target.subject, message, address),
      messageBytesMax: this.#client.messageBytesMax,
      isPaced: true, // others connect to this process meanwhile
      onOver: () => {
        attempt.abort();
        this.#channels.delete(address);
      },
    });
    this.#channels.set(address, channel);
    channel.on('data', onBytes);
    this.#client.connected(attempt.signal).then(
      () => channel.destroyed || channel.emit('connect'),
      (error: unknown) => channel.fail(workerError('CannotConnect', error)),
    );
    return channel;
  }

  #subscribe(): void {
    if (this.#isSubscribed) return;
    this.#isSubscribed = true;
    this.#client.subscribe(`${this.#inbox}.*`, (message) => this.#receive(message));
  }

  #receive({ subject, reply, status, data }: NatsMessage): void {
    const channel = this.#channels.get(subject);
    if (status === NO_RESPONDERS) {
      const isNew = channel?.isAnswered === false;
      channel?.fail(workerError(isNew ? 'CannotConnect' : 'Disconnected', 'no process listens at the endpoint'));
      return;
    }
    const message = decodeMessage(data);
    if (message === undefined) return;
    if (channel !== undefined) channel.receive(message);
    else if (reply !== '' && message.kind !== MessageKind.close) {
      this.#client.send(reply, encodeMessage(MessageKind.close, 0, 0)); // the channel is over: the worker may stop
    }
  }

  #loseAll(reason: string): void {
    for (const channel of [...this.#channels.values()]) {
      // A channel that is not connected yet waits for the connection, up to its own deadline.
      if (channel.hasSent) channel.fail(workerError('Disconnected', `the connection to NATS was lost: ${reason}`));
    }
  }
}

const CHANNELS_MAX = 16_384;
const CLOSE_TIMEOUT_MS = 2000;
interface NatsPlaneServerOptions extends ServeOptions {
  readonly client: NatsClient;
  readonly settings: ConnectionSettings;
  readonly random: Random;
}

/** The serving side: one subject per endpoint, one channel per caller's inbox. */
class NatsPlaneServer extends EndpointHost implements PlaneServer {
  readonly #client: NatsClient;
  readonly #settings: ConnectionSettings;
  readonly #heartbeat: Heartbeat;
  /** Subject for reports about callers: a receiver is gone, or a channel has ended. */
  readonly #inbox: string;
  readonly #subscriptions = new Map<string, NatsSubscription>();
  readonly #channels = new Map<string, NatsChannel>();
  readonly #callerOf = new Map<string, string>();
  readonly #unwatch: () => void;
  #opened = 0;
  #isClosed = false;

  constructor({ client, settings, random, instanceId }: NatsPlaneServerOptions) {
    super(settings, instanceId);
    this.#client = client;
    this.#settings = settings;
    this.#heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#inbox = `_INBOX.${random.instanceId()}${random.instanceId()}`;
    this.#subscriptions.set(
      this.#inbox,
      client.subscribe(`${this.#inbox}.*`, (message) => this.#hearBack(message)),
    );
    this.#unwatch = client.watch({ away: (reason) => this.#loseAll(reason) });
  }

  /** Keeps the subject after the endpoint has gone, because running streams use it. */
  override handle(endpoint: string, handler: PlaneHandler): Transport {
    const subject = subjectOfEndpoint(endpoint);
    super.handle(endpoint, handler);
    if (!this.#subscriptions.has(subject)) {
      this.#subscriptions.set(
        subject,
        this.#client.subscribe(subject, (message) => this.#receive(message)),
      );
    }
    return { nats_tcp: subject };
  }

  override async reachable(signal: AbortSignal): Promise<void> {
    // A connection that is lost meanwhile comes back with its subscriptions.
    await this.#client.flush(signal).catch(() => this.#client.connected(signal));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const closing = [...this.#channels.values()].map((channel) => new Promise((done) => channel.once('close', done)));
    this.closeConnections();
    await Promise.all(closing); // each within the time that a caller may take to read
    this.#unwatch();
    for (const subscription of this.#subscriptions.values()) subscription.unsubscribe();
    // The server must know before callers hear that this process is gone; if it is away, it knows already.
    if (!this.#client.isConnected) return;
    const deadline = { clock: this.#settings.clock, timeoutMs: CLOSE_TIMEOUT_MS };
    await forAtMost(deadline, (signal) => this.#client.flush(signal)).catch(() => {});
  }

  #receive({ reply, data }: NatsMessage): void {
    const message = decodeMessage(data);
    if (message === undefined || reply === '') return;
    const known = this.#channels.get(reply);
    if (known !== undefined) {
      known.receive(message);
    } else if (message.kind === MessageKind.data && message.sequence === 0 && this.#channels.size < CHANNELS_MAX) {
      this.#open(reply).receive(message);
    } else if (message.kind !== MessageKind.close) {
      this.#client.send(reply, encodeMessage(MessageKind.close, 0, 0)); // the channel is over: the caller may stop
    }
  }

  #open(caller: string): NatsChannel {
    const address = `${this.#inbox}.${(this.#opened++).toString(36)}`;
    const channel = new NatsChannel({
      send: (message) => this.#client.send(caller, message, address),
      messageBytesMax: this.#client.messageBytesMax,
      onOver: () => {
        this.#channels.delete(caller);
        this.#callerOf.delete(address);
      },
    });
    this.#channels.set(caller, channel);
    this.#callerOf.set(address, caller);
    this.add(new ServerConnection(channel, this.#settings, this.#heartbeat, this));
    return channel;
  }

  #hearBack({ subject, status, data }: NatsMessage): void {
    const channel = this.#channels.get(this.#callerOf.get(subject) ?? '');
    if (status === NO_RESPONDERS) channel?.fail(new Error('the caller is gone'));
    else if (decodeMessage(data)?.kind === MessageKind.close) channel?.fail(new Error('the caller has closed'));
  }

  #loseAll(reason: string): void {
    for (const channel of [...this.#channels.values()]) {
      channel.fail(new Error(`the connection to NATS was lost: ${reason}`));
    }
  }
}

/** A worker's endpoint as its discovery record names it; connections belong to one endpoint. */
interface NatsTarget extends CallTarget {
  readonly subject: string;
}

const SUBJECT = /^(?<ns>[^._]+)_(?<component>[^.]+)\.(?<endpoint>[^.]+)-(?<instance>[0-9a-f]+)$/;

/**
 * Returns the subject of an endpoint path. Characters with a meaning in it are percent-encoded, so that the path can be
 * read back.
 *
 * @example subjectOfEndpoint('2a/dynamo/backend/generate') // 'dynamo_backend.generate-2a'
 */
export function subjectOfEndpoint(path: string): string {
  const [instance, ns, component, endpoint, ...rest] = path.split('/');
  if (!instance || !ns || !component || !endpoint || rest.length > 0 || !/^[0-9a-f]+$/.test(instance)) {
    throw new Error(`endpoint ${JSON.stringify(path)}: expected {instance}/{namespace}/{component}/{endpoint}`);
  }
  return `${encodeSegment(ns).replaceAll('_', '%5F')}_${encodeSegment(component)}.${encodeSegment(endpoint)}-${instance}`;
}

/** Reads `{ nats_tcp: subject }`. Throws `CannotConnect` for anything else. */
export function readNatsTarget(transport: Transport): NatsTarget {
  const subject = transport.nats_tcp ?? JSON.stringify(transport);
  const parts = SUBJECT.exec(subject)?.groups;
  if (parts?.instance === undefined) throw workerError('CannotConnect', `not a NATS transport: ${subject}`);
  const { ns = '', component = '', endpoint = '', instance } = parts;
  const path = [instance, ...[ns, component, endpoint].map(decodeURIComponent)].join('/');
  return { subject, instanceId: instance, endpoint: path, poolKey: subject };
}
