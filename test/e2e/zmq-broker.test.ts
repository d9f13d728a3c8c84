import { afterAll, beforeAll, expect, it } from 'vitest';
import { postJson, useFleet, waitUntil } from '../support/index.ts';
import { startZmqBroker, type ZmqBroker } from '../support/zmq-broker.ts';

const fleet = useFleet();
const QUESTION = {
  model: 'stator-mini',
  messages: [{ role: 'user', content: 'How do the parts of a long question meet? '.repeat(40) }],
  max_tokens: 4,
};
let brokers: ZmqBroker[] = [];

beforeAll(async () => {
  brokers = [await startZmqBroker(), await startZmqBroker()];
});
afterAll(() => Promise.all(brokers.map((broker) => broker.stop())));

it('a router learns of caches through the brokers that its settings name', async () => {
  const side = (name: 'xsub' | 'xpub'): string => `${name}=${brokers.map((broker) => broker[name]).join(';')}`;
  const env = { DYN_ZMQ_BROKER_URL: `${side('xsub')} , ${side('xpub')}` };
  await fleet.worker([], env);
  const frontend = await fleet.frontend(['--router-mode=kv'], env);
  await fleet.untilWorkers(frontend, 1);
  await waitUntil(async () => {
    expect((await postJson(`${frontend.url}/v1/chat/completions`, QUESTION)).status).toBe(200);
    return (await frontend.metric('dynamo_component_kv_cache_events_applied', 'event_type="stored"')) > 0;
  });
});
