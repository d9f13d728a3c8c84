import { describe, expect, it } from 'vitest';
import type { EngineInfo } from '../../../shared/engines/index.ts';
import { buildModelCard } from '../../../shared/worker/model-card.ts';

const ENGINE: EngineInfo = {
  contextLength: 4096,
  kvBlockSizeTokens: 64,
  totalKvBlocks: 1000,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  dataParallelSize: 2,
  modelInput: 'Tokens',
  modelType: ['Chat', 'Completions'],
  publishesKvEvents: true,
};
const FILE = { path: '/m/tokenizer.json', checksum: 'sha256:00', size: 3 };

describe('model card', () => {
  it('joins what the model, the engine and the operator say', () => {
    const card = buildModelCard(
      { files: { 'tokenizer.json': FILE }, contextLength: 32_768, sourcePath: '/m' },
      ENGINE,
      { displayName: 'Org/Model 1.5', aliases: ['m'] },
      { reasoning_parser: 'qwen3', userData: { tier: 1 } },
    );
    expect(card).toEqual({
      display_name: 'Org/Model 1.5',
      slug: 'org-model-1-5',
      source_path: '/m',
      architectural_max_context_length: 32_768,
      user_data: { tier: 1 },
      files: { 'tokenizer.json': FILE },
      kv_cache_block_size: 64,
      model_type: ['Chat', 'Completions'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: ['m'],
      runtime_config: {
        context_length: 4096,
        total_kv_blocks: 1000,
        max_num_seqs: 256,
        max_num_batched_tokens: 8192,
        data_parallel_start_rank: 0,
        data_parallel_size: 2,
        enable_local_indexer: true,
        kv_event_publishing_enabled: true,
        reasoning_parser: 'qwen3',
      },
    });
  });

  it('offers chats alone where only the engine can render and tokenize', () => {
    const card = (files?: Record<string, typeof FILE>, takesMediaChats = true) => {
      const facts = files === undefined ? {} : { files };
      const { model_input, model_type, runtime_config } = buildModelCard(
        facts,
        { ...ENGINE, takesMediaChats },
        { displayName: 'm' },
      );
      return [model_input, model_type, runtime_config.media_chats];
    };
    const file = { 'tokenizer.json': FILE };
    expect(card(file)).toEqual(['Tokens', ['Chat', 'Completions'], true]);
    expect(card(file, false)).toEqual(['Tokens', ['Chat', 'Completions'], undefined]);
    expect(card()).toEqual(['Text', ['Chat'], undefined]);
    expect(card({ 'tekken.json': FILE })).toEqual(['Text', ['Chat'], undefined]);
  });

  it('names the engine that answers chats itself, if there is one', () => {
    const engineChats = (chatEngine?: string) =>
      buildModelCard({}, { ...ENGINE, ...(chatEngine === undefined ? {} : { chatEngine }) }, { displayName: 'm' })
        .runtime_config.engine_chats;
    expect([engineChats('vllm'), engineChats()]).toEqual(['vllm', undefined]);
  });

  it('offers of the surfaces for text those that were chosen, and leaves other kinds of models alone', () => {
    const offered = (modelType: EngineInfo['modelType'], ...endpointTypes: ('chat' | 'completions' | 'none')[]) =>
      buildModelCard({}, { ...ENGINE, modelType }, { displayName: 'm' }, { endpointTypes }).model_type;
    expect(offered(['Chat', 'Completions'], 'chat', 'completions')).toEqual(['Chat', 'Completions']);
    expect(offered(['Chat', 'Completions', 'Embedding'], 'completions')).toEqual(['Completions', 'Embedding']);
    expect(offered(['Chat'], 'completions')).toEqual([]);
    expect(offered(['Chat', 'Completions'], 'none')).toEqual([]);
    expect(offered(['Embedding'], 'chat')).toEqual(['Embedding']);
  });

  it('serves no longer context than the shorter of model and engine', () => {
    const contextOf = (model: number | undefined, engine: number | undefined): number | undefined =>
      buildModelCard({ contextLength: model }, { ...ENGINE, contextLength: engine }, { displayName: 'm' })
        .runtime_config.context_length;
    expect(contextOf(2048, 4096)).toBe(2048);
    expect(contextOf(undefined, 4096)).toBe(4096);
    expect(contextOf(2048, undefined)).toBe(2048);
    expect(contextOf(undefined, undefined)).toBeUndefined();
  });

  it('takes the engine’s name of the model where none is given, and refuses a model without a name', () => {
    expect(buildModelCard({}, { ...ENGINE, modelName: 'upstream' }, {})).toMatchObject({
      display_name: 'upstream',
      source_path: 'upstream',
    });
    expect(() => buildModelCard({}, ENGINE, {})).toThrow('give --model-name');
  });

  it.each([
    ['prefill', [['decode']]],
    ['decode', [['prefill']]],
    ['encode', [['prefill', 'decode'], ['aggregated']]],
  ] as const)('of a %s worker names the peers that it needs', (workerType, needs) => {
    const card = buildModelCard({}, ENGINE, { displayName: 'm' }, { workerType });
    expect(card).toMatchObject({ worker_type: workerType, needs });
  });

  it('of a prefill worker offers nothing to clients, and says where decode engines meet its own', () => {
    const engine = { ...ENGINE, bootstrapHost: '10.0.0.1', bootstrapPort: 8998 };
    const settings = { workerType: 'prefill', tool_call_parser: 'hermes', reasoning_parser: 'qwen3' } as const;
    const { model_type, runtime_config } = buildModelCard({}, engine, { displayName: 'm' }, settings);
    expect(model_type).toEqual(['Prefill']);
    expect(runtime_config.disaggregated_endpoint).toEqual({ bootstrap_host: '10.0.0.1', bootstrap_port: 8998 });
    expect(runtime_config.tool_call_parser).toBeUndefined();
    expect(runtime_config.reasoning_parser).toBeUndefined();
  });
});
