// A model in a few lines: it says back what it hears, a word at a time.
//   node examples/parrot-worker.mjs
//   npx stator frontend
//   curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \
//     -d '{"model":"parrot","stream":true,"messages":[{"role":"user","content":"hello there"}]}'
// @ts-check
import { setTimeout as wait } from 'node:timers/promises';
import { defineWorker } from 'stator/worker';

/** @typedef {string | readonly { text?: string }[]} Content a text, or a list of parts */

/** @param {Content} content */
const textOf = (content) => (typeof content === 'string' ? content : content.map(({ text = '' }) => text).join(' '));

const worker = defineWorker({
  model: 'parrot',
  input: 'text',
  kinds: ['chat'],
  async *generate({ input }, { signal }) {
    if (input.kind !== 'text') return;
    const { messages } = /** @type {{ messages: { content: Content }[] }} */ (input.body);
    for (const word of textOf(messages.at(-1)?.content ?? '').split(/(?<= )/)) {
      yield word;
      await wait(5, undefined, { signal }); // a client that leaves ends the wait, and with it the generator
    }
  },
});

process.exitCode = await worker.run({ flags: process.argv.slice(2) });
