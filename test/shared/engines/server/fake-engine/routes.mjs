import { createServer } from 'node:http';

const METRICS =
  'vllm:cache_config_info{block_size="16",num_gpu_blocks="64"} 1\nvllm:num_requests_running{engine="0"} 0\n';

/** Serves what vLLM serves, as far as a worker asks for it. */
export function serve({ words, model, value }, env) {
  const drops = new Map(
    (env.FAKE_DROPS?.split(',') ?? []).map((each) => each.split(':')).map(([path, n]) => [path, Number(n)]),
  );
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const path = request.url.split('?')[0];
    const left = drops.get(path) ?? 0;
    if (left > 0) {
      drops.set(path, left - 1);
      request.socket.destroy();
      return;
    }
    answer({ path, text, words, model, value, env }, response);
  });
  server.listen(Number(value('--port')), '127.0.0.1', () => console.log('INFO ready'));
}

function answer({ path, text, words, model, value, env }, response) {
  const json = (body, status = 200) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (path === '/health') response.writeHead(200).end();
  else if (path === '/version') json({ version: env.FAKE_VERSION ?? 'fake' });
  else if (path === '/v1/models')
    json({ data: [{ id: value('--served-model-name'), root: model, max_model_len: 512 }] });
  else if (path === '/openapi.json' && !words.includes('--disable-fastapi-docs'))
    json({ paths: { '/inference/v1/generate': {} } });
  else if (path === '/args')
    json({ args: words, env: { seed: env.PYTHONHASHSEED, lora: env.VLLM_ALLOW_RUNTIME_LORA_UPDATING } });
  else if (path === '/metrics') response.end(METRICS);
  else if (path === '/die') process.exit(3);
  else if (path !== '/inference/v1/generate') json({ detail: 'Not Found' }, 404);
  else if (JSON.parse(text).stream !== true) json(chunk([7], 'length'));
  else stream(response, env);
}

function stream(response, env) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(`data: ${JSON.stringify(chunk([65, 66], null))}\n\n`);
  if (!env.FAKE_HANGS) response.end(`data: ${JSON.stringify(chunk([67], 'length'))}\n\ndata: [DONE]\n\n`);
}

function chunk(ids, finish) {
  return { choices: [{ index: 0, token_ids: ids, finish_reason: finish, stop_reason: null, logprobs: null }] };
}
