// A tensor model that answers with what it was asked, for bench/kserve.ts.
import { defineWorker } from 'stator/worker';

const worker = defineWorker({
  model: 'echo',
  input: 'tensor',
  kinds: ['tensor'],
  async *generate({ input }) {
    const { model, tensors } = input.body;
    yield { body: { model, tensors } };
  },
});
process.exitCode = await worker.run({ flags: process.argv.slice(2) });
