import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import { KubernetesDiscovery } from '../../../shared/discovery/kubernetes/kubernetes-discovery.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';
import { FakeCluster } from '../../support/kube/cluster.ts';

const BUCKETS = ['v1/instances', 'v1/mdc', 'v1/event_channels', 'v1/event_sources'] as const;
/** The object of a mock worker of Dynamo 1.6.1, as that wrote it to the fake API server. */
const RECORDED = new URL('../../fixtures/dynamo/kubernetes-object-1.6.1.json', import.meta.url);

describe('objects of Dynamo in Kubernetes', () => {
  let cluster: FakeCluster;
  const opened: KubernetesDiscovery[] = [];
  beforeEach(async () => {
    cluster = await FakeCluster.start();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((discovery) => discovery.close()));
    await cluster.close();
  });

  const open = (pod?: string, onProblem: (problem: Error) => void = () => {}) => {
    const access = { server: new URL(`http://127.0.0.1:${cluster.api.port}`), credentials: async () => ({}) };
    const identity = pod === undefined ? undefined : cluster.addPod(pod);
    if (pod !== undefined) cluster.setReady(pod, true);
    const discovery = new KubernetesDiscovery({ access, namespace: 'default', identity, onProblem });
    opened.push(discovery);
    return discovery;
  };

  it('of release 1.6.1 are read whole, with the ids of their pods', async () => {
    const object = JSON.parse(await readFile(RECORDED, 'utf8'));
    const { uid } = cluster.addPod('worker-0');
    object.metadata.ownerReferences[0].uid = uid;
    cluster.api.store('dynamoworkermetadatas').set('worker-0', object);
    cluster.setReady('worker-0', true);
    const read: Record<string, readonly DiscoveryRecord[]> = {};
    const reader = open();
    for (const bucket of BUCKETS) read[bucket] = await reader.list({ bucket, prefix: '', includesDynamo: true });
    const source = 'worker_kv_query_source_109f5b8c916657';
    const ofDynamo = { wire: 'dynamo', namespace: 'dynamo', component: 'backend', instance_id: '43710f49c0cff' };
    const tcp = (endpoint: string) => `10.0.0.2:44275/43710f49c0cff/dynamo/backend/${endpoint}`;
    expect(read['v1/instances']).toMatchObject([
      { ...ofDynamo, endpoint: 'generate', transport: { dynamo_tcp: tcp('generate'), dynamo_codec: 'msgpack' } },
      { ...ofDynamo, endpoint: source, transport: { dynamo_tcp: tcp(source), dynamo_codec: 'msgpack' } },
    ]);
    expect(read['v1/mdc']).toMatchObject([{ ...ofDynamo, card: { display_name: 'qwen3', kv_cache_block_size: 64 } }]);
    expect(read['v1/event_channels']?.map((record) => record.type === 'EventChannel' && record.topic)).toEqual([
      'active_sequences_events',
      'forward-pass-metrics',
      'kv-events',
      'kv_metrics',
    ]);
    expect(read['v1/event_sources']).toMatchObject([{ topic: 'kv-events', worker_id: '43710f49c0cff' }]);
    expect(await reader.list({ bucket: 'v1/instances', prefix: '' })).toEqual([]);
  });

  it('are refused if an id is too long to be exact there, and the report names the variable that sets it', async () => {
    const { uid } = cluster.addPod('worker-0');
    const place = { namespace: 'dynamo', component: 'backend', endpoint: 'generate' };
    const endpoint = { type: 'Endpoint', ...place, instance_id: 2 ** 53, transport: { tcp: '10.0.0.2:1/x' } };
    cluster.api.store('dynamoworkermetadatas').set('worker-0', {
      metadata: { ownerReferences: [{ kind: 'Pod', uid }] },
      spec: { data: { endpoints: { 'dynamo/backend/generate/20000000000001': endpoint } } },
    });
    cluster.setReady('worker-0', true);
    const problems: string[] = [];
    const witness = new Witness();
    const query = { bucket: 'v1/instances', prefix: 'dynamo/backend', includesDynamo: true } as const;
    await open(undefined, ({ message }) => problems.push(message)).watch(query, witness);
    expect(witness.keys).toEqual([]);
    expect(problems).toEqual([
      expect.stringMatching(
        /larger than 9007199254740991.*set DYN_DISCOVERY_LOGICAL_INSTANCE_ID.*: dynamo\/backend\/generate\/20000000000001$/,
      ),
    ]);
  });

  it('are written as those read them, from records with their wire, and read again as they were', async () => {
    const path = 'ns/backend/generate/1c0e0fcda1cdc9';
    const transport = { dynamo_tcp: `10.0.0.3:1/${path}`, dynamo_codec: 'msgpack' };
    const record = { ...endpointAt(path), wire: 'dynamo' as const, transport };
    await open('ours').put(record);
    expect(cluster.api.store('dynamoworkermetadatas').get('ours')?.spec).toMatchObject({
      data: {
        endpoints: {
          [path]: {
            type: 'Endpoint',
            instance_id: 0x1c0e0fcda1cdc9,
            transport: { tcp: `10.0.0.3:1/${path}` },
            request_plane_codec: 'msgpack',
          },
        },
        stator: { records: {} },
      },
    });
    expect(await open().list({ bucket: 'v1/instances', prefix: 'ns', includesDynamo: true })).toEqual([record]);
  });
});
