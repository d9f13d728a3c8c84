// A worker from code that fails as it is asked, embeds in floats, and says what it was sent to draw.
import { defineWorker, ServeError } from 'stator/worker';

const worker = defineWorker({
  model: 'made',
  input: 'text',
  kinds: ['chat', 'embeddings', 'images'],
  async *generate({ input }) {
    const { endpoint, body } = input;
    if (endpoint === 'embeddings') {
      const data = []
        .concat(body.input)
        .map((_, index) => ({ object: 'embedding', index, embedding: [0.5, -2, index] }));
      yield { body: { object: 'list', data, usage: { prompt_tokens: 1, total_tokens: 1 } }, finish_reason: 'stop' };
    } else if (endpoint === 'images') {
      yield { body: { data: [{ b64_json: Buffer.from(JSON.stringify(body)).toString('base64') }] } };
    } else if (body.messages.at(-1).content === 'too much') {
      throw new ServeError('rate_limit_exceeded', 'Tenant x may ask twice a minute', { retryAfterMs: 9000 });
    } else if (body.messages.at(-1).content === 'in a body') {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'made' } }];
      yield { body: { choices, usage: { prompt_tokens: 7, completion_tokens: 20 } } };
    } else {
      yield 'six by';
      yield 'tes ...';
    }
  },
});
process.exitCode = await worker.run({ flags: process.argv.slice(2) });
