import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { ASK, EtcdClient } from '../../../shared/discovery/etcd/etcd-client.ts';
import { EtcdDiscovery } from '../../../shared/discovery/etcd/etcd-discovery.ts';
import { LiveModelDirectory } from '../../../shared/pipeline/index.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { type EtcdCluster, hasEtcd, startEtcd, waitUntil } from '../../support/index.ts';

/** Keys and values that two mock workers of Dynamo 1.6.1 wrote. */
const WRITTEN = Object.entries(
  JSON.parse(readFileSync(new URL('../../fixtures/discovery/dynamo-1.6.1.json', import.meta.url), 'utf8')) as Readonly<
    Record<string, string>
  >,
);
const NEVER = new AbortController().signal;
const cards = { bucket: 'v1/mdc', prefix: '' } as const;

describe.runIf(hasEtcd())('an etcd that Dynamo uses, too', () => {
  let cluster: EtcdCluster;
  let client: EtcdClient;
  beforeAll(async () => {
    cluster = await startEtcd();
    client = new EtcdClient({ endpoints: cluster.urls, clock: systemClock });
    for (const [key, text] of WRITTEN) {
      await client.ask(ASK.put, { key: Buffer.from(key), value: Buffer.from(text) }, NEVER);
    }
  });
  afterAll(async () => {
    client.close();
    await cluster.stop();
  });

  it('shows the workers of Dynamo only to readers that ask for them, as they come and go', async () => {
    const discovery = new EtcdDiscovery({ endpoints: cluster.urls });
    await discovery.put(modelAt('ns/backend/generate/a'));
    expect(await discovery.list(cards)).toEqual([modelAt('ns/backend/generate/a')]);
    const witness = new Witness();
    await discovery.watch({ ...cards, includesDynamo: true }, witness);
    expect(witness.keys).toEqual([
      'dynamo/backend/generate/13b0a22438119705',
      'dynamo/backend/generate/13b0a22438119708',
      'ns/backend/generate/a',
    ]);
    const key = Buffer.from('v1/mdc/dynamo/backend/generate/13b0a22438119708');
    await client.ask(ASK.delete, { key }, NEVER);
    await waitUntil(() => witness.present.size === 2);
    await discovery.close();
    expect(await ownKeys('v1/')).toBe(WRITTEN.length - 1); // a reader writes nothing there
    expect(await ownKeys('stator/')).toBe(0);
  });

  it('has models whose workers speak the wire of Dynamo left out, and told', async () => {
    const discovery = new EtcdDiscovery({ endpoints: cluster.urls });
    await discovery.put(endpointAt('ns/backend/generate/a'));
    await discovery.put(modelAt('ns/backend/generate/a'));
    const foreign: string[] = [];
    const directory = new LiveModelDirectory({
      discovery,
      clock: systemClock,
      onForeignWorker: ({ card }) => foreign.push(card.display_name),
    });
    await directory.start();
    expect(directory.list().map(({ name }) => name)).toEqual(['Tiny/Model-1.0']);
    expect(new Set(foreign)).toEqual(new Set(['qwen3']));
    directory.close();
    await discovery.close();
  });

  async function ownKeys(root: string): Promise<number> {
    const end = `${root.slice(0, -1)}0`; // the character after a slash
    const { count } = await client.ask(ASK.range, { key: Buffer.from(root), rangeEnd: Buffer.from(end) }, NEVER);
    return Number(count);
  }
});
