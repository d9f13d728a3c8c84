import { LinkedBucket } from './bucket.ts';
import { NatsLink } from './link.ts';
import { LinkedStream } from './stream.ts';
import type { NatsClient, NatsOptions } from './types.ts';

/**
 * A client of NATS; the library behind it is known in this folder alone. Nothing is dialled before it is needed.
 *
 * @example
 * const client = createNatsClient({ clock: systemClock, servers: ['nats://localhost:4222'] });
 * client.subscribe('greetings', (message) => console.log(message.data));
 */
export function createNatsClient(options: NatsOptions): NatsClient {
  const link = new NatsLink(options);
  return {
    get isConnected() {
      return link.isConnected;
    },
    get messageBytesMax() {
      return link.messageBytesMax;
    },
    connected: async (signal) => void (await link.connection(signal)),
    send: (subject, data, reply) => link.send(subject, data, reply),
    publish: (subject, data) => link.publish(subject, data),
    subscribe: (subject, receive) => link.subscribe(subject, receive),
    watch: (watcher) => link.watch(watcher),
    flush: (signal) => link.flush(signal),
    stream: (settings) => new LinkedStream(link, settings),
    bucket: (settings) => new LinkedBucket(link, settings),
    close: () => link.close(),
  };
}
