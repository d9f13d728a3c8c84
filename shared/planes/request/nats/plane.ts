import { type Random, systemRandom } from '../../../clock/index.ts';
import { workerError } from '../../../errors/index.ts';
import type { NatsClient, NatsMessage } from '../../nats/index.ts';
import { ClientCall } from '../client-call.ts';
import type { ByteChannel, Dial } from '../frames/byte-channel.ts';
import { ConnectionPool } from '../frames/pool.ts';
import { type ConnectionOptions, withDefaults } from '../frames/settings.ts';
import type { Call, CallSink, PlaneRequest, PlaneServer, RequestPlane, ServeOptions, Transport } from '../types.ts';
import { NatsChannel } from './channel.ts';
import { decodeMessage, encodeMessage, MessageKind } from './channel-message.ts';
import { NatsPlaneServer } from './server.ts';
import { type NatsTarget, readNatsTarget } from './subject.ts';

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
 * The NATS request plane: the frames of the TCP plane over channels of messages, so
 * that both are one protocol: credit, heartbeats, draining, and one TOKENS frame for all streams of an engine step. For
 * fleets whose workers cannot be dialled. NATS delivers at most once: a message that is lost, here or with the server, ends
 * the streams of its channel with `Disconnected`, and they are retried as after any lost connection.
 *
 * @example
 * const plane = createNatsRequestPlane({ clock: systemClock, client: createNatsClient({ ... }) });
 */
export function createNatsRequestPlane(options: NatsRequestPlaneOptions): RequestPlane {
  const { client, random = systemRandom, ...rest } = options;
  const settings = withDefaults({ requestTimeoutMs: REQUEST_TIMEOUT_MS, ...rest });
  const { clock, observer } = settings;
  const pool = new ConnectionPool(settings, new CallerChannels(client, random).dial);
  return {
    name: 'nats',
    /** Waits for the server, however long it takes: a worker that nobody can reach has nothing to announce. */
    async serve(serveOptions: ServeOptions): Promise<PlaneServer> {
      await client.connected(serveOptions.signal ?? new AbortController().signal); // ends also when the plane is closed
      return new NatsPlaneServer({ client, settings, random, ...serveOptions });
    },
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => pool.open({ call, target: readNatsTarget(transport), request }));
      return call;
    },
    async close() {
      pool.close();
      await client.close();
    },
  };
}

/**
 * The calling side: a channel is a pair of subjects, the endpoint's and one below this caller's own inbox, which comes as the
 * reply of everything sent; so the server itself tells when nobody listens at the endpoint.
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
      channel?.fail(workerError(isNew ? 'CannotConnect' : 'Disconnected', 'nobody listens at the endpoint'));
      return;
    }
    const message = decodeMessage(data);
    if (message === undefined) return;
    if (channel !== undefined) channel.receive(message);
    else if (reply !== '' && message.kind !== MessageKind.close) {
      this.#client.send(reply, encodeMessage(MessageKind.close, 0, 0)); // of a channel that is over: the worker may stop
    }
  }

  #loseAll(reason: string): void {
    for (const channel of [...this.#channels.values()]) {
      // One that is not connected yet waits for the connection, up to its own deadline.
      if (channel.hasSent) channel.fail(workerError('Disconnected', `the connection to NATS was lost: ${reason}`));
    }
  }
}
