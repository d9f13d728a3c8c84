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

describe('defineWorker', () => {
  it.each([
    ['a model without a name', { model: '' }, 'model "": expected a name'],
    ['an unknown input', { input: 'speech' }, 'input "speech": expected tokens, text, tensor'],
    ['no kind', { kinds: [] }, 'kinds []: expected chat, completions'],
    ['an unknown kind', { kinds: ['chat', 'songs'] }, 'kinds "songs": expected chat, completions'],
    ['tokens without a model folder', { input: 'tokens' }, 'modelPath is missing'],
    ['tensors on a chat route', { input: 'tensor' }, 'belong together'],
    ['no generator', { generate: 'text' }, 'generate "text": expected an async generator'],
  ])('refuses %s and says what is allowed', (_, wrong, message) => {
    expect(() => defineWorker({ ...GOOD, ...wrong } as WorkerDefinition)).toThrow(message);
  });

  it('names the flag that is wrong when it starts', async () => {
    await expect(defineWorker(GOOD).start({ flags: ['--endpoint', 'nonsense'], env: {} })).rejects.toThrow(
      '--endpoint',
    );
  });

  it('reports a model folder that cannot be read', async () => {
    const worker = defineWorker({ ...GOOD, input: 'tokens', modelPath: '/nowhere' });
    await expect(worker.start({ flags: ['--discovery-backend', 'mem'], env: {} })).rejects.toThrow('/nowhere');
  });
});
