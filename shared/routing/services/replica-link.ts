import { pack, Unpackr } from 'msgpackr';
import { Publisher, Subscriber } from 'zeromq';
import { reasonOf } from '../../errors/index.ts';
import { LARGE_RECORD_BYTES, readSliced } from '../../planes/event/index.ts';
import type { ReplicaLink } from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Messages that wait for a slow replica; what is beyond them is lost, and ends by the time limit of requests. */
const HIGH_WATER_MARK = 100_000;
/** Longest message of another replica; a longer one ends its connection. */
const MESSAGE_BYTES_MAX = 8 << 20;

export interface ZmqReplicaLink extends ReplicaLink {
  /** Where other replicas connect to; undefined when this one only listens. */
  readonly endpoint: string | undefined;
  close(): Promise<void>;
}

/** Replicas by ZeroMQ: each publishes on a port of its own and subscribes to the others. */
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
        .catch((error: unknown) => logger.warn('replicas were not told', { reason: reasonOf(error) }));
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
      onMessage(bytes.length > LARGE_RECORD_BYTES ? await readSliced('msgpack', bytes) : unpackr.unpack(bytes));
    } catch (error) {
      logger.warn('message of a replica cannot be read', { reason: reasonOf(error) });
    }
  }
}
