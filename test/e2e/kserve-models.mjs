// Tensor models of one process, for kserve-clients.test.ts: Triton's `simple` and `simple_string`, and one that echoes.
import { defineWorker, readTensor, ServeError, writeTensor } from 'stator/worker';

const SHAPE = [1, 16];

function find(tensors, name, dataType) {
  const tensor = tensors.find(({ metadata }) => metadata.name === name);
  if (tensor?.metadata.data_type === dataType && String(tensor.metadata.shape) === String(SHAPE)) return tensor;
  throw new ServeError('invalid_value', `${name} must be ${dataType} of shape [${SHAPE}]`);
}

/** Adds and subtracts two vectors. */
function arithmetic(model, dataType, { read, write }) {
  const described = (name) => ({ name, data_type: dataType, shape: SHAPE });
  return defineWorker({
    model,
    input: 'tensor',
    kinds: ['tensor'],
    card: {
      tensorModelConfig: {
        name: model,
        inputs: [described('INPUT0'), described('INPUT1')],
        outputs: [described('OUTPUT0'), described('OUTPUT1')],
      },
    },
    async *generate({ input: { body } }) {
      const [a, b] = ['INPUT0', 'INPUT1'].map((name) => read(readTensor(find(body.tensors, name, dataType))));
      const made = (name, of) => writeTensor(name, dataType, SHAPE, write(a.map((x, at) => of(x, b[at]))));
      yield { body: { model, tensors: [made('OUTPUT0', (x, y) => x + y), made('OUTPUT1', (x, y) => x - y)] } };
    },
  });
}

const same = (values) => values;
const simple = arithmetic('simple', 'Int32', { read: same, write: same });
const simpleString = arithmetic('simple_string', 'Bytes', {
  read: (texts) => texts.map((text) => Number(text.toString())),
  write: (numbers) => numbers.map(String),
});

/** Reads every tensor and writes it again, as often and as slowly as `times` and `delay_ms` say. */
const echo = defineWorker({
  model: 'echo',
  input: 'tensor',
  kinds: ['tensor'],
  async *generate({ input: { body } }, { signal }) {
    process.stdout.write(`echo of ${body.id} begins\n`);
    signal.addEventListener('abort', () => process.stdout.write(`echo of ${body.id} is stopped\n`));
    const { times, delay_ms: delay, raise } = body.parameters ?? {};
    if (raise !== undefined) throw new Error(raise.string);
    for (let at = 0; at < Number(times?.int64 ?? 1) && !signal.aborted; at++) {
      if (delay !== undefined) await new Promise((resolve) => setTimeout(resolve, Number(delay.int64)));
      const tensors = body.tensors.map(({ metadata: { name, data_type: type, shape }, ...tensor }) =>
        writeTensor(name, type, shape, readTensor({ ...tensor })),
      );
      yield { body: { model: body.model, tensors, parameters: { ...body.parameters, seq: { int64: at } } } };
    }
  },
});

const flags = process.argv.slice(2);
await Promise.all([simple, simpleString, echo].map((worker) => worker.start({ flags })));
process.stdout.write('all models are there\n');
