import type { ZmqBrokerSource, ZmqBrokers } from '../planes/index.ts';
import { eventChannelPrefix } from './keys.ts';
import type { Discovery } from './types.ts';

/** Component under which brokers of the ZMQ event plane register. */
const BROKER_COMPONENT = 'zmq_broker';

/**
 * Finds brokers through discovery: event channels of the component `zmq_broker` with the transport `ZmqBroker`,
 * whatever their topic (`DYN_ZMQ_BROKER_ENABLED`).
 *
 * @param onNone called for a namespace that has no broker yet: until one comes, its events reach no process
 */
export function discoveredBrokers(discovery: Discovery, onNone: (namespace: string) => void): ZmqBrokerSource {
  return {
    async follow(namespace, listener) {
      const found = new Map<string, ZmqBrokers>();
      let isPresent = false; // true once all current brokers have been delivered
      const tell = (): void => {
        if (isPresent) listener(union([...found.values()]));
      };
      const prefix = eventChannelPrefix({ kind: 'component', namespace, component: BROKER_COMPONENT });
      const watch = await discovery.watch(
        { bucket: 'v1/event_channels', prefix, includesDynamo: true },
        {
          event(event) {
            found.delete(event.key);
            const record = event.kind === 'added' ? event.record : undefined;
            if (record?.type === 'EventChannel' && record.transport.kind === 'ZmqBroker') {
              const { xsub_endpoints: xsub, xpub_endpoints: xpub } = record.transport.config;
              found.set(event.key, { xsub, xpub });
            }
            tell();
          },
        },
      );
      isPresent = true;
      if (found.size === 0) onNone(namespace);
      tell();
      return watch;
    },
  };
}

function union(brokers: readonly ZmqBrokers[]): ZmqBrokers {
  return {
    xsub: [...new Set(brokers.flatMap(({ xsub }) => xsub))],
    xpub: [...new Set(brokers.flatMap(({ xpub }) => xpub))],
  };
}
