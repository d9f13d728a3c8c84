import { describe, expect, it } from 'vitest';
import { defineWorker, type WorkerDefinition } from '../../../functions/sdk/worker.ts';

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
});
