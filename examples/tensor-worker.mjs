// A tensor model for KServe's clients: Triton's `simple`, which adds and subtracts two vectors.
//   node examples/tensor-worker.mjs
// @ts-check
import { defineWorker, readTensor, ServeError, writeTensor } from 'stator/worker';

const SHAPE = [1, 16];
const described = (/** @type {string} */ name) => ({ name, data_type: 'Int32', shape: SHAPE });

const worker = defineWorker({
  model: 'simple',
  input: 'tensor',
  kinds: ['tensor'],
  card: {
    // What ModelMetadata and ModelConfig tell. Requests are not held against it: that is for the code below.
    tensorModelConfig: {
      name: 'simple',
      inputs: [described('INPUT0'), described('INPUT1')],
      outputs: [described('OUTPUT0'), described('OUTPUT1')],
    },
  },
  async *generate({ input }) {
    if (input.kind !== 'tensor') return;
    const { model, tensors } = /** @type {import('stator/worker').TensorRequestRecord} */ (input.body);
    const [a, b] = ['INPUT0', 'INPUT1'].map((name) => {
      const tensor = tensors.find(({ metadata }) => metadata.name === name);
      if (tensor?.metadata.data_type === 'Int32' && String(tensor.metadata.shape) === String(SHAPE)) {
        return /** @type {Int32Array} */ (readTensor(tensor));
      }
      throw new ServeError('invalid_value', `${name} must be INT32 of shape [${SHAPE}]`);
    });
    const made = (/** @type {string} */ name, /** @type {(x: number, y: number) => number} */ of) =>
      writeTensor(
        name,
        'Int32',
        SHAPE,
        a.map((x, at) => of(x, b[at])),
      );
    yield { body: { model, tensors: [made('OUTPUT0', (x, y) => x + y), made('OUTPUT1', (x, y) => x - y)] } };
  },
});

process.exitCode = await worker.run({ flags: process.argv.slice(2) });
