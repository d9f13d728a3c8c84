// A model that takes token ids: the frontend renders the chat template, tokenizes, and makes text of the tokens again.
//   MODEL_FOLDER=~/models/Qwen3-0.6B node examples/echo-tokens-worker.mjs
// @ts-check
import { defineWorker } from 'stator/worker';

const worker = defineWorker({
  model: 'echo-tokens',
  input: 'tokens',
  kinds: ['chat', 'completions'],
  modelPath: process.env.MODEL_FOLDER ?? 'dist/builtin-model',
  runtime: { maxNumSeqs: 64 },
  async *generate({ input, stop }) {
    if (input.kind !== 'tokens') return;
    // Says the prompt's own tokens again, as many as were asked for.
    const wanted = Math.min(stop.max_tokens ?? 16, 1000);
    for (let at = 0; at < wanted; at++) yield [input.tokenIds[at % input.tokenIds.length] ?? 0];
    yield { finish_reason: 'length' };
  },
});

process.exitCode = await worker.run({ flags: process.argv.slice(2) });
