import { afterEach, expect, it } from 'vitest';
import { discoveredBrokers, type EventChannelRecord } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import type { ZmqBrokers } from '../../../shared/planes/index.ts';
import { waitUntil } from '../../support/index.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openDiscovery(): MemoryDiscovery {
  const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
  cleanups.push(() => discovery.close());
  return discovery;
}

function brokerRecord(id: string, host: string, component = 'zmq_broker'): EventChannelRecord {
  const config = { xsub_endpoints: [`tcp://${host}:5555`], xpub_endpoints: [`tcp://${host}:5556`] };
  return {
    type: 'EventChannel',
    scope: { kind: 'component', namespace: 'dynamo', component },
    topic: 'broker',
    instance_id: id,
    transport: { kind: 'ZmqBroker', config },
  };
}

async function follow(discovery: MemoryDiscovery) {
  const told: ZmqBrokers[] = [];
  const without: string[] = [];
  const source = discoveredBrokers(discovery, (namespace) => without.push(namespace));
  const following = await source.follow('dynamo', (brokers) => told.push(brokers));
  cleanups.push(() => following.close());
  return { told, without };
}

it('finds all brokers of the namespace at once', async () => {
  const discovery = openDiscovery();
  await discovery.put(brokerRecord('1', 'a'));
  await discovery.put(brokerRecord('2', 'b'));
  await discovery.put(brokerRecord('3', 'c', 'backend')); // a publisher that uses a broker is none
  const { told, without } = await follow(discovery);
  expect(told).toEqual([{ xsub: ['tcp://a:5555', 'tcp://b:5555'], xpub: ['tcp://a:5556', 'tcp://b:5556'] }]);
  expect(without).toEqual([]);
});

it('says that there is none, and takes the one that comes', async () => {
  const discovery = openDiscovery();
  const { told, without } = await follow(discovery);
  expect(told).toEqual([{ xsub: [], xpub: [] }]);
  expect(without).toEqual(['dynamo']);
  await discovery.put(brokerRecord('1', 'a'));
  await waitUntil(() => told.at(-1)?.xsub.length === 1);
  await discovery.remove(brokerRecord('1', 'a'));
  await waitUntil(() => told.at(-1)?.xsub.length === 0);
});

it('takes the new address of a broker that has moved', async () => {
  const discovery = openDiscovery();
  await discovery.put(brokerRecord('1', 'a'));
  const { told } = await follow(discovery);
  await discovery.put(brokerRecord('1', 'b'));
  await waitUntil(() => told.at(-1)?.xsub[0] === 'tcp://b:5555');
  expect(told.at(-1)).toEqual({ xsub: ['tcp://b:5555'], xpub: ['tcp://b:5556'] });
});
