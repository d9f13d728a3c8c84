import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { defineWorker, type WorkerDefinition } from '../../../functions/sdk/worker.ts';
import { builtinModelPath } from '../../../shared/artifacts/index.ts';
import { openHubBed } from '../../support/hub/hub-bed.ts';

const GOOD: WorkerDefinition = {
  model: 'parrot',
  input: 'text',
  kinds: ['chat'],
  async *generate() {
    yield 'hello';
  },
};

const TENSORS = { name: 'm', inputs: [{ name: 'X', data_type: 'Int32', shape: [-1] }], outputs: [] };

function describing(more: object): object {
  return { input: 'tensor', kinds: ['tensor'], card: { tensorModelConfig: { ...TENSORS, ...more } } };
}

describe('defineWorker', () => {
  it.each([
    ['a model without a name', { model: '' }, 'model "": expected a name'],
    ['an unknown input', { input: 'speech' }, 'input "speech": expected tokens, text, tensor'],
    ['no kind', { kinds: [] }, 'kinds []: expected chat, completions'],
    ['an unknown kind', { kinds: ['chat', 'songs'] }, 'kinds "songs": expected chat, completions'],
    ['tokens without a model folder', { input: 'tokens' }, 'modelPath is missing'],
    ['tensors on a chat route', { input: 'tensor' }, 'belong together'],
    [
      'a tensor of no type',
      describing({ inputs: [{ name: 'X', data_type: 'INT32', shape: [1] }] }),
      'inputs[0].data_type "INT32": expected Bool, Uint8',
    ],
    [
      'a tensor of no shape',
      describing({ outputs: [{ name: 'X', data_type: 'Int32', shape: [-2] }] }),
      'outputs[0].shape [-2]: expected a list',
    ],
    ['tensors that are no list', describing({ inputs: {} }), 'card.tensorModelConfig.inputs {}: expected a list'],
    ['cache events of text', { runtime: { publishesKvEvents: true } }, 'only a model with input "tokens" has blocks'],
    ['no generator', { generate: 'text' }, 'generate "text": expected an async generator'],
  ])('refuses %s and says what is allowed', (_, wrong, message) => {
    expect(() => defineWorker({ ...GOOD, ...wrong } as WorkerDefinition)).toThrow(message);
  });

  it('names the flag that is wrong when it starts', async () => {
    await expect(defineWorker(GOOD).start({ flags: ['--endpoint', 'nonsense'], env: {} })).rejects.toThrow(
      '--endpoint',
    );
  });

  it("reports a description of Triton's that cannot be read", async () => {
    const worker = defineWorker({
      ...GOOD,
      ...describing({ triton_model_config: [10, 255, 255] }),
    } as WorkerDefinition);
    await expect(worker.start({ flags: ['--discovery-backend', 'mem'], env: {} })).rejects.toThrow(
      'card.tensorModelConfig.triton_model_config: failed to decode Protobuf message: ModelConfig',
    );
  });

  it('reports a model folder that cannot be read', async () => {
    const worker = defineWorker({ ...GOOD, input: 'tokens', modelPath: '/nowhere' });
    await expect(worker.start({ flags: ['--discovery-backend', 'mem'], env: {} })).rejects.toThrow('/nowhere');
  });

  it('gets the files of a model on the hub, or says why not', async () => {
    const bed = await openHubBed();
    const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json'];
    const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(builtinModelPath(), name))]));
    bed.hub.models.set('org/name', { files });
    const env = { HF_ENDPOINT: bed.hub.url, HF_HOME: bed.home, DYN_TCP_RPC_HOST: '127.0.0.1' };
    const startFrom = (modelPath: string) =>
      defineWorker({ ...GOOD, input: 'tokens', modelPath }).start({ flags: ['--discovery-backend', 'mem'], env });
    await expect(startFrom('org/absent')).rejects.toThrow(`${bed.hub.url} has no model org/absent`);
    await (await startFrom('org/name')).drain();
    expect(bed.hub.asked.filter(({ path }) => path.includes('/org/name/resolve/'))).toHaveLength(names.length);
    await bed.close();
  });
});

describe('what a worker from code tells of its cache', () => {
  const TOKENS: WorkerDefinition = { ...GOOD, input: 'tokens', modelPath: 'shared/artifacts/builtin-model' };
  const tells = defineWorker({
    ...TOKENS,
    runtime: { publishesKvEvents: true, kvBlockSizeTokens: 4, dataParallelSize: 2 },
  });
  const nine = Array.from({ length: 9 }, (_, at) => at);

  it('is named block by block, those of an adapter or a tenant apart', () => {
    const { kvCache } = tells;
    const names = kvCache.stored({ tokenIds: nine });
    expect(names).toHaveLength(2);
    expect(kvCache.stored({ tokenIds: Uint32Array.from(nine.slice(0, 4)) })).toEqual([names[0]]);
    expect(kvCache.stored({ tokenIds: nine, loraName: 'a' })).not.toEqual(names);
    expect(kvCache.stored({ tokenIds: nine, cacheSalt: 'a' })).not.toEqual(names);
    expect(kvCache.stored({ tokenIds: nine.slice(0, 4), blockHashes: [7n], parentHash: 8n })).toEqual([7n]);
    expect(kvCache.stored({ tokenIds: [1] })).toEqual([]);
  });

  it.each([
    ['tokenIds[3] -1: expected a token id', 'stored', { tokenIds: [1, 2, 3, -1] }],
    ['dpRank 2: expected a whole number below 2', 'stored', { tokenIds: nine, dpRank: 2 }],
    ['blockHashes has 1 entries: expected 2', 'stored', { tokenIds: nine, blockHashes: [1n] }],
    ['blockHashes is missing', 'stored', { tokenIds: nine, parentHash: 1n }],
    ['blockHashes 1: expected a bigint from 0 to 2^64-1', 'removed', { blockHashes: [1] }],
    ['expected a bigint from 0', 'removed', { blockHashes: [2n ** 64n] }],
    ['tier "tape": expected device, host_pinned', 'removed', { blockHashes: [], tier: 'tape' }],
  ] as const)('is refused with the field and what is allowed: %s', (message, verb, blocks) => {
    expect(() => tells.kvCache[verb](blocks as never)).toThrow(message);
  });

  it('has no place where the definition does not say that it will tell', () => {
    expect(() => defineWorker(TOKENS).kvCache).toThrow('runtime.publishesKvEvents: true');
  });
});
