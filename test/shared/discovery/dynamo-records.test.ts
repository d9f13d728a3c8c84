import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { fromDynamo } from '../../../shared/discovery/dynamo/read-record.ts';
import { toDynamo } from '../../../shared/discovery/dynamo/write-record.ts';
import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import type { Bucket } from '../../../shared/discovery/keys.ts';
import { fromText, refusalOf, refusalText } from '../../../shared/discovery/record-text.ts';
import { SnapshotWatcher } from '../../../shared/discovery/snapshot-watcher.ts';
import { type RecordedRelease, recordedFiles } from '../../support/dynamo-files.ts';

/** Keys and values that mock workers of Dynamo 1.6.1 wrote: two to etcd, and two others to a folder. */
const IN_ETCD = JSON.parse(
  readFileSync(new URL('../../fixtures/discovery/dynamo-1.6.1.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;
const IN_FOLDER = [...recordedFiles()].map(([path, text]) => [decodeURIComponent(path), text] as const);
const WRITTEN: Readonly<Record<string, string>> = { ...IN_ETCD, ...Object.fromEntries(IN_FOLDER) };
const PATH = 'dynamo/backend/generate/13b0a22438119705';

function read(bucket: Bucket, key: string, text = WRITTEN[`${bucket}/${key}`] ?? '') {
  return fromText(fromDynamo(text, key), bucket, key);
}

function recordedCard(name: string): { readonly key: string; readonly text: string } {
  const path = new URL(`../../fixtures/dynamo/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8')) as { readonly key: string; readonly text: string };
}

function recordedBy(release: RecordedRelease) {
  return [...recordedFiles(release)].map(([path, text]) => {
    const [, bucket = '', key = ''] = /^(v1\/\w+)\/(.*)$/.exec(decodeURIComponent(path)) ?? [];
    return { bucket: bucket as Bucket, key, text };
  });
}

describe('the records of Dynamo', () => {
  it('are all read', () => {
    for (const name of Object.keys(WRITTEN)) {
      const [, bucket, key = ''] = /^(v1\/\w+)\/(.*)$/.exec(name) ?? [];
      expect(read(bucket as Bucket, key), name).toBeDefined();
    }
  });

  it('are endpoints with their whole id, and an address that no plane of Stator takes for its own', () => {
    expect(read('v1/instances', PATH)).toEqual({
      type: 'Endpoint',
      namespace: 'dynamo',
      component: 'backend',
      endpoint: 'generate',
      instance_id: '13b0a22438119705',
      wire: 'dynamo',
      transport: {
        dynamo_tcp: '192.0.2.2:42841/13b0a22438119705/dynamo/backend/generate',
        dynamo_codec: 'msgpack',
      },
      device_type: 'cuda',
    });
  });

  it('are cards with their files, types and abilities', () => {
    const record = read('v1/mdc', PATH);
    expect(record).toMatchObject({ type: 'Model', instance_id: '13b0a22438119705', wire: 'dynamo' });
    const { card } = record as unknown as { readonly card: Readonly<Record<string, unknown>> };
    expect(card).toMatchObject({
      display_name: 'qwen3',
      architectural_max_context_length: 131_072,
      kv_cache_block_size: 64,
      model_type: ['Chat', 'Completions'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: [],
    });
    expect(Object.keys(card.files as object).sort()).toEqual([
      'config.json',
      'generation_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    expect(card.files).toMatchObject({
      'tokenizer.json': {
        path: '/models/qwen3/tokenizer.json',
        checksum: 'blake3:b0cb923fc505fdf0a53f0287654fa26577d3f333d4134350da0a97664b228739',
        size: 11_422_654,
      },
    });
    const { runtime_config: runtime } = card as { readonly runtime_config: object };
    expect(runtime).toMatchObject({ total_kv_blocks: 16_384, kv_event_publishing_enabled: true });
    expect(runtime).not.toHaveProperty('context_length'); // 0 there
    expect(runtime).not.toHaveProperty('tool_call_parser'); // null there
  });

  it('are channels of the scope of an endpoint', () => {
    const key = 'namespace/dynamo/component/backend/endpoint/generate/topic/kv-events';
    const [found] = IN_FOLDER.filter(([path]) => path.startsWith(`v1/event_channels/${key}/`));
    const [path = '', text = ''] = found ?? [];
    const { transport } = JSON.parse(text) as { readonly transport: unknown };
    expect(read('v1/event_channels', path.slice('v1/event_channels/'.length), text)).toEqual({
      type: 'EventChannel',
      scope: { kind: 'endpoint', namespace: 'dynamo', component: 'backend', endpoint: 'generate' },
      topic: 'kv-events',
      instance_id: path.slice(path.lastIndexOf('/') + 1),
      wire: 'dynamo',
      transport,
    });
  });

  it('are sources of events, with the worker and the endpoint that answers queries for the past', () => {
    const [found] = IN_FOLDER.filter(([path]) => path.startsWith('v1/event_sources/'));
    const [path = '', text = ''] = found ?? [];
    const publisher = path.slice(path.lastIndexOf('/') + 1);
    const worker = BigInt(/"worker_id":(\d+)/.exec(text)?.[1] ?? '').toString(16);
    expect(read('v1/event_sources', path.slice('v1/event_sources/'.length), text)).toMatchObject({
      type: 'EventSource',
      instance_id: publisher,
      worker_id: worker,
      dp_rank: 0,
      kv_state_endpoint: { namespace: 'dynamo', component: 'backend', endpoint: 'generate' },
      recovery_target: {
        type: 'Endpoint',
        endpoint: `worker_kv_query_source_${publisher}`,
        instance_id: worker,
        transport: {
          dynamo_tcp: expect.stringContaining(`/${worker}/dynamo/backend/worker_kv_query_source_`),
          dynamo_codec: 'msgpack',
        },
      },
    });
  });

  it('are sources of other topics without what only those topics know', () => {
    const key = 'namespace/a/component/b/topic/other/5';
    const source = {
      type: 'EventSource',
      scope: { kind: 'component', namespace: 'a', component: 'b' },
      topic: 'other',
    };
    const text = JSON.stringify({ ...source, publisher_id: 5, metadata: { worker: 'w', anything: [] } });
    const { type, scope, topic } = source;
    expect(read('v1/event_sources', key, text)).toEqual({ type, scope, topic, instance_id: '5', wire: 'dynamo' });
  });

  it('name the status server that serves the files of a card', () => {
    const { key, text } = recordedCard('self-hosted-card-1.6.1');
    const served = '192.0.2.2:9090/v1/metadata/my-ns/back_end/gen-erate/qwen3/_base';
    expect(read('v1/mdc', key, text)).toMatchObject({
      files_at: served,
      card: { files: { 'config.json': { path: `http://${served}/config.json`, size: 625 } } },
    });
    const further = { path: `http://${served}/text.txt`, checksum: 'blake3:00', size: 5 }; // only self-hosted cards list it
    const listed = text.replace('"media_decoder":', `"extra_files":[${JSON.stringify(further)}],"media_decoder":`);
    expect(read('v1/mdc', key, listed)).toEqual(read('v1/mdc', key, text));
    const elsewhere = text.replaceAll('/v1/metadata/', '/latest/meta-data/');
    expect(read('v1/mdc', key, elsewhere)).toBeUndefined(); // a record may not choose any address that is fetched
  });

  it('are cards of adapters, as a worker of 1.6.1 registered one, and are written as they were read', () => {
    const { key, text } = recordedCard('adapter-card-1.6.1');
    const record = read('v1/mdc', key, text);
    expect(record).toMatchObject({
      instance_id: 'e0a0b4567b8d33da',
      model_suffix: 'acme_law_v1',
      card: { display_name: 'acme/law.v1', lora: { name: 'acme/law.v1' } },
    });
    expect(read('v1/mdc', key, toDynamo(record as DiscoveryRecord))).toEqual(record);
  });

  it('may be of an adapter, of a role with peers, and have a template of their own', () => {
    const text = WRITTEN[`v1/mdc/${PATH}`] ?? '';
    const record = JSON.parse(text.replaceAll('1418812159064905477', '1')) as { card_json: object };
    const template = { path: 'http://h:9/v1/metadata/x/chat_template.jinja', checksum: 'blake3:00', size: 3 };
    Object.assign(record.card_json, {
      worker_type: 'Prefill',
      needs: [['Decode']],
      chat_template_file: { hf_chat_template: { is_custom: true, file: template } },
      lora: { name: 'a/b', max_gpu_lora_count: null },
    });
    const key = `${PATH}/a%2Fb`;
    expect(read('v1/mdc', key, JSON.stringify(record))).toMatchObject({
      model_suffix: 'a/b',
      card: { worker_type: 'prefill', needs: [['decode']], files: { custom_chat_template: template } },
      files_at: 'h:9/v1/metadata/x',
    });
  });

  it.each(['', '{', '[]', 'null', '{"type":"Endpoint"}', '{"type":"Model","card_json":7}', '{"type":"Other"}'])(
    'that cannot be read are left to the reader to refuse: %s',
    (text) => {
      expect(read('v1/mdc', PATH, text)).toBeUndefined();
      expect(read('v1/instances', PATH, text)).toBeUndefined();
    },
  );

  it('are left to the reader to refuse if their key or their files cannot be read', () => {
    const text = WRITTEN[`v1/mdc/${PATH}`] ?? '';
    expect(read('v1/mdc', `${PATH}/%`, text)).toBeUndefined();
    const record = JSON.parse(text) as { card_json: object };
    const file = { path: '/m/config.json', checksum: { toString: 1, valueOf: 1 }, size: 3 };
    Object.assign(record.card_json, { model_info: { hf_config_json: file } });
    expect(read('v1/mdc', PATH, JSON.stringify(record))).toBeUndefined();
  });

  it.each(['1.4.2', '1.5.1', '1.6.1'] as const)('of release %s are all read', (release) => {
    for (const { bucket, key, text } of recordedBy(release)) {
      const record = read(bucket, key, text);
      expect(record, key).toMatchObject({ wire: 'dynamo' });
      expect(record).not.toHaveProperty('refused');
    }
  });

  it.each(['1.2.1', '1.3.1'] as const)('of release %s are refused where they differ', (release) => {
    const cards = release === '1.2.1' ? ['the card names no worker_type'] : [];
    const reasons = recordedBy(release).flatMap(({ bucket, key, text }) => {
      const record = read(bucket, key, text);
      const refused = record?.type === 'Endpoint' ? record.refused : refusalOf(fromDynamo(text, key));
      return refused === undefined ? [] : [`${bucket}: ${refused.slice(0, refused.indexOf(','))}`];
    });
    expect(new Set(reasons)).toEqual(
      new Set([
        'v1/event_channels: the event channel has no scope',
        ...cards.map((reason) => `v1/mdc: ${reason}`),
        expect.stringContaining('v1/instances: the worker answers queries for its index as releases up to Dynamo 1.3'),
      ]),
    );
  });

  it('of Dynamo 1.3 and older are refused, with the release and the ones that are taken', () => {
    const card = JSON.parse(WRITTEN[`v1/mdc/${PATH}`] ?? '') as { card_json: { worker_type?: string } };
    delete card.card_json.worker_type;
    const channel = {
      type: 'EventChannel',
      namespace: 'dynamo',
      component: 'backend',
      topic: 'kv-events',
      instance_id: 42,
    };
    const endpoint = {
      type: 'Endpoint',
      namespace: 'dynamo',
      component: 'c',
      endpoint: 'e',
      transport: { http: 'http://h' },
    };
    const refused = [
      [JSON.stringify(card), PATH, 'Dynamo 1.2 or older'],
      [JSON.stringify(channel), 'dynamo/backend/kv-events/2a', 'Dynamo 1.3 or older'],
      [JSON.stringify(endpoint), 'dynamo/c/e/1', 'request plane http'],
    ] as const;
    for (const [text, key, release] of refused) {
      const reason = refusalOf(fromDynamo(text, key));
      expect(reason).toContain(release);
      expect(reason).toContain('Dynamo 1.4 and later');
    }
  });

  it('are refused in the log once, by their reason, and the log calls others unreadable', () => {
    const problems: string[] = [];
    const watcher = new SnapshotWatcher(
      { bucket: 'v1/mdc', prefix: '' },
      { event: () => {} },
      ({ message }) => void problems.push(message),
    );
    const texts = new Map([
      ['a/b/c/1', refusalText('too old')],
      ['a/b/c/2', refusalText('too old')],
      ['a/b/c/3', '{'],
      ['a/b/c/4', '{"type":"Refused","reason":'],
    ]);
    watcher.apply(texts);
    watcher.apply(texts);
    expect(problems).toEqual(['too old: a/b/c/1, a/b/c/2', 'unreadable discovery entries in v1/mdc: a/b/c/3, a/b/c/4']);
  });

  it('are written as they were read, with every digit of their ids', () => {
    for (const [name, text] of Object.entries(WRITTEN)) {
      const [, bucket = '', key = ''] = /^(v1\/\w+)\/(.*)$/.exec(name) ?? [];
      const record = read(bucket as Bucket, key);
      if (record === undefined) throw new Error(`${name} is no record`);
      const again = toDynamo(record);
      expect(fromText(fromDynamo(again, key), bucket as Bucket, key), name).toEqual(record);
      for (const id of text.match(/\d{17,}/g) ?? []) expect(again).toContain(id);
    }
  });

  it.each([
    ['org/name@v1', 'org/name'],
    ['org/name', 'org/name'],
    ['/models/a@b', '/models/a@b'],
  ])('name a model on the hub without its revision: %s', (source_path, written) => {
    const record = read('v1/mdc', PATH);
    if (record?.type !== 'Model') throw new Error('it is not a card');
    const text = toDynamo({ ...record, card: { ...record.card, source_path } });
    expect(JSON.parse(text)).toMatchObject({ card_json: { source_path: written } });
  });
});
