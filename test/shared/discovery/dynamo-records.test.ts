import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { fromDynamo } from '../../../shared/discovery/etcd/dynamo-records.ts';
import { fromText } from '../../../shared/discovery/record-text.ts';

/** Keys and values that two mock workers of Dynamo 1.6.1 wrote to etcd. */
const WRITTEN = JSON.parse(
  readFileSync(new URL('../../fixtures/discovery/dynamo-1.6.1.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;
const PATH = 'dynamo/backend/generate/13b0a22438119705';

function read(bucket: 'v1/instances' | 'v1/mdc', key: string, text = WRITTEN[`${bucket}/${key}`] ?? '') {
  return fromText(fromDynamo(text, key), bucket, key);
}

describe('the records of Dynamo', () => {
  it('are all read', () => {
    for (const name of Object.keys(WRITTEN)) {
      const [, bucket, key = ''] = /^(v1\/\w+)\/(.*)$/.exec(name) ?? [];
      expect(read(bucket as 'v1/mdc', key), name).toBeDefined();
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
      transport: { dynamo_tcp: '192.0.2.2:42841/13b0a22438119705/dynamo/backend/generate' },
      device_type: 'cuda',
      request_plane_codec: 'msgpack',
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
      card: { worker_type: 'prefill', needs: [['decode']], files: { 'chat_template.jinja': template } },
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
});
