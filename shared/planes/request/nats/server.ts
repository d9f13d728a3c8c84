import type { Random } from '../../../clock/index.ts';
import type { NatsClient, NatsMessage, NatsSubscription } from '../../nats/index.ts';
import { EndpointHost } from '../frames/endpoint-host.ts';
import { Heartbeat } from '../frames/heartbeat.ts';
import { ServerConnection } from '../frames/server-connection.ts';
import type { ConnectionSettings } from '../frames/settings.ts';
import type { PlaneHandler, PlaneServer, ServeOptions, Transport } from '../types.ts';
import { NatsChannel } from './channel.ts';
import { decodeMessage, encodeMessage, MessageKind } from './channel-message.ts';
import { subjectOfEndpoint } from './subject.ts';

const CHANNELS_MAX = 16_384;
const CLOSE_TIMEOUT_MS = 2000;
const NO_RESPONDERS = 503;

export interface NatsPlaneServerOptions extends ServeOptions {
  readonly client: NatsClient;
  readonly settings: ConnectionSettings;
  readonly random: Random;
}

/** The serving side: one subject an endpoint, one channel a caller's inbox. */
export class NatsPlaneServer implements PlaneServer {
  readonly #client: NatsClient;
  readonly #settings: ConnectionSettings;
  readonly #host: EndpointHost;
  readonly #heartbeat: Heartbeat;
  /** Where the callers' side of trouble arrives: that nobody listens any more, or that a channel is over. */
  readonly #inbox: string;
  readonly #subscriptions = new Map<string, NatsSubscription>();
  readonly #channels = new Map<string, NatsChannel>();
  readonly #callerOf = new Map<string, string>();
  readonly #unwatch: () => void;
  #opened = 0;
  #isClosed = false;

  constructor({ client, settings, random, instanceId }: NatsPlaneServerOptions) {
    this.#client = client;
    this.#settings = settings;
    this.#host = new EndpointHost(settings, instanceId);
    this.#heartbeat = new Heartbeat(settings.clock, settings.pingIntervalMs);
    this.#inbox = `_INBOX.${random.instanceId()}${random.instanceId()}`;
    this.#subscriptions.set(
      this.#inbox,
      client.subscribe(`${this.#inbox}.*`, (message) => this.#hearBack(message)),
    );
    this.#unwatch = client.watch({ away: (reason) => this.#loseAll(reason) });
  }

  get activeStreams(): number {
    return this.#host.activeStreams;
  }

  handle(endpoint: string, handler: PlaneHandler): Transport {
    const subject = subjectOfEndpoint(endpoint);
    this.#host.handle(endpoint, handler);
    if (!this.#subscriptions.has(subject)) {
      this.#subscriptions.set(
        subject,
        this.#client.subscribe(subject, (message) => this.#receive(message)),
      );
    }
    return { nats_tcp: subject };
  }

  /** The subject stays: streams under way come over it. */
  unhandle(endpoint: string): void {
    this.#host.unhandle(endpoint);
  }

  drain(): void {
    this.#host.drain();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const closing = [...this.#channels.values()].map((channel) => new Promise((done) => channel.once('close', done)));
    this.#host.close();
    await Promise.all(closing); // each within the time that a caller may take to read
    this.#unwatch();
    for (const subscription of this.#subscriptions.values()) subscription.unsubscribe();
    const deadline = new AbortController();
    const timer = this.#settings.clock.after(CLOSE_TIMEOUT_MS, () => deadline.abort());
    // The server must know before callers are told that this process is gone; away, it knows already.
    if (this.#client.isConnected) await this.#client.flush(deadline.signal).catch(() => {});
    timer.cancel();
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
      this.#client.send(reply, encodeMessage(MessageKind.close, 0, 0)); // of a channel that is over: the caller may stop
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
    this.#host.add(new ServerConnection(channel, this.#settings, this.#heartbeat, this.#host));
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
