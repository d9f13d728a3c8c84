// A stand-in for `vllm serve --runner pooling` and `sglang.launch_server --is-embedding`. Without that flag it serves
// chats.
import { createServer } from 'node:http';

const args = process.argv.slice(2);
const value = (name) => args[args.indexOf(name) + 1];
const isSglang = args.includes('--model-path');
const embeds = isSglang ? args.includes('--is-embedding') : value('--runner') === 'pooling';
const name = value('--served-model-name');
const LENGTH = 4;
const received = [];

const json = (response, body, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

/** Three bytes a token, because this stand-in has no tokenizer. */
const tokensOf = (input) => (typeof input === 'string' ? Math.ceil(input.length / 3) : input.length);
const inputsOf = (input) => (typeof input === 'string' || typeof input[0] === 'number' ? [input] : input);

function vector(input, { dimensions = LENGTH, encoding_format: format }) {
  const values = [tokensOf(input), 0.5, -2, 0].slice(0, dimensions);
  if (format !== 'base64') return values;
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, each] of values.entries()) bytes.writeFloatLE(each, 4 * at);
  return bytes.toString('base64');
}

function embed(response, body) {
  received.push(body);
  if (body.model !== name) return json(response, { error: { message: `no ${body.model}`, code: 404 } }, 404);
  if (body.dimensions > LENGTH) {
    const message = `dimensions must be at most ${LENGTH}`;
    return json(response, { error: { message, type: 'BadRequestError', param: 'dimensions', code: 400 } }, 400);
  }
  const inputs = inputsOf(body.input);
  const prompt_tokens = inputs.reduce((sum, input) => sum + tokensOf(input), 0);
  const usage = { prompt_tokens, total_tokens: prompt_tokens, ...(isSglang ? {} : { completion_tokens: 0 }) };
  const data = inputs.map((input, index) => ({ object: 'embedding', index, embedding: vector(input, body) }));
  return json(response, { object: 'list', model: body.model, data, usage });
}

const paths = embeds ? { '/v1/embeddings': {} } : { '/v1/completions': {}, '/v1/chat/completions': {} };
const routes = {
  '/health': (response) => response.writeHead(200).end(),
  '/version': (response) => json(response, { version: '0.33.0' }),
  '/openapi.json': (response) =>
    json(response, { paths: isSglang ? { '/v1/embeddings': {}, '/generate': {} } : paths }),
  '/v1/models': (response) => json(response, { data: [{ id: name, root: 'vectors', max_model_len: 512 }] }),
  '/metrics': (response) => response.writeHead(200).end(''),
  '/received': (response) => json(response, { args, received }),
  ...(isSglang
    ? {
        '/model_info': (response) => json(response, { served_model_name: name, is_generation: !embeds }),
        '/server_info': (response) => json(response, { page_size: 1, version: '0.5.23' }),
      }
    : {}),
};

createServer(async (request, response) => {
  let text = '';
  for await (const part of request) text += part;
  const path = request.url.split('?')[0];
  if (path === '/v1/embeddings' && embeds) return embed(response, JSON.parse(text));
  return routes[path] === undefined ? json(response, { detail: 'Not Found' }, 404) : routes[path](response);
}).listen(Number(value('--port')), '127.0.0.1');
