import type { Random } from '../../../clock/index.ts';
import { workerError } from '../../../errors/index.ts';
import type { NatsClient, NatsMessage } from '../../nats/index.ts';
import type { ByteChannel, Dial } from '../frames/byte-channel.ts';
import { NatsChannel } from './channel.ts';
import { decodeMessage, encodeMessage, MessageKind } from './channel-message.ts';
import type { NatsTarget } from './subject.ts';

const NO_RESPONDERS = 503;

/**
 * The calling side: a channel is a pair of subjects, the endpoint's and one below this caller's own inbox, which comes as the
 * reply of everything sent; so the server itself tells when nobody listens at the endpoint.
 */
export class CallerChannels {
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
