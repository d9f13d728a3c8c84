import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DiscoveryRecord, ModelCard, ModelRecord } from '../../../shared/discovery/index.ts';
import { DynamoRegistry } from '../../../shared/worker/dynamo-registry.ts';

const AT = { namespace: 'dynamo', component: 'backend', instance_id: '2a' } as const;
const TRANSPORT = { dynamo_tcp: '10.0.0.1:8800/2a/dynamo/backend/generate', dynamo_codec: 'msgpack' };

async function card(): Promise<ModelCard> {
  const path = join(await mkdtemp(join(tmpdir(), 'registry-')), 'config.json');
  await writeFile(path, 'abc');
  return {
    display_name: 'qwen',
    slug: 'qwen',
    files: { 'config.json': { path, checksum: 'sha256:x', size: 3 } },
    kv_cache_block_size: 16,
    model_type: ['Chat'],
    model_input: 'Tokens',
    worker_type: 'aggregated',
    needs: [],
    aliases: [],
    runtime_config: { total_kv_blocks: 8, enable_local_indexer: true, kv_event_publishing_enabled: true },
  };
}

function open() {
  const calls: (readonly [verb: string, record: DiscoveryRecord])[] = [];
  const store = {
    backend: 'file',
    put: async (record: DiscoveryRecord) => void calls.push(['put', record]),
    remove: async (record: DiscoveryRecord) => void calls.push(['remove', record]),
  };
  return { registry: new DynamoRegistry(store, 'generate'), calls };
}

describe("the records of a worker for Dynamo's frontends", () => {
  it('are marked as theirs, and leave what only Stator calls', async () => {
    const { registry, calls } = open();
    for (const endpoint of ['generate', 'clear_kv_blocks', 'cancel', 'kv_recovery_0']) {
      await registry.put({ type: 'Endpoint', ...AT, endpoint, transport: TRANSPORT });
    }
    const channel = { type: 'EventChannel', scope: { kind: 'endpoint', ...AT, endpoint: 'generate' } } as const;
    const zmq = { kind: 'Zmq', config: { endpoint: 'tcp://h:1' } } as const;
    const common = { ...channel, topic: 'kv-events', instance_id: '7', transport: zmq };
    await registry.put(common); // with messages of Stator
    await registry.put({ ...common, wire: 'dynamo' });
    expect(calls.pop()?.[1]).toMatchObject({ type: 'EventChannel', wire: 'dynamo' });
    expect(calls.map(([, record]) => 'endpoint' in record && [record.endpoint, record.wire])).toEqual([
      ['generate', 'dynamo'],
      ['clear_kv_blocks', 'dynamo'],
    ]);
  });

  it('describe the files of the model by URL and BLAKE3, and say what the worker says', async () => {
    const { registry, calls } = open();
    const record: ModelRecord = {
      type: 'Model',
      ...AT,
      endpoint: 'generate',
      card: await card(),
      files_at: '10.0.0.1:9090/v1/metadata/dynamo/backend/generate/qwen/_base',
    };
    await registry.put(record);
    await registry.remove(record);
    expect(calls.map(([verb]) => verb)).toEqual(['put', 'remove']);
    expect((calls[0]?.[1] as ModelRecord | undefined)?.card).toMatchObject({
      files: {
        'config.json': {
          path: 'http://10.0.0.1:9090/v1/metadata/dynamo/backend/generate/qwen/_base/config.json',
          checksum: 'blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85',
          size: 3,
        },
      },
      runtime_config: { total_kv_blocks: 8, enable_local_indexer: true, kv_event_publishing_enabled: true },
    });
    expect(calls[1]?.[1]).toEqual(calls[0]?.[1]); // the same record is removed
  });
});
