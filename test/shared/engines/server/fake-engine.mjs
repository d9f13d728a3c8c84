// A stand-in for `vllm serve`: an HTTP server with a helper process, told by its arguments how to behave.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';

const args = process.argv.slice(2);
const value = (name) => args[args.indexOf(name) + 1];
const known = process.env.FAKE_UNKNOWN?.split(',') ?? [];
const unknown = args.filter((arg) => known.includes(arg));
if (unknown.length > 0) {
  console.error(`fake: error: unrecognized arguments: ${unknown.join(' ')}`);
  process.exit(2);
}
if (process.env.FAKE_DIES === 'early') {
  console.error('Traceback (most recent call last):\nValueError: no room on the device');
  process.exit(1);
}
if (process.env.FAKE_DEAF) process.on('SIGTERM', () => console.error('WARNING: will not stop'));
const helper = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
console.log(`INFO 11-22 loading, helper ${helper.pid}`);
console.error('WARNING 11-22 something is odd');

const json = (response, body, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const chunk = (ids, finish) => ({
  choices: [{ index: 0, token_ids: ids, finish_reason: finish, stop_reason: null, logprobs: null }],
});
const server = createServer(async (request, response) => {
  let text = '';
  for await (const part of request) text += part;
  const path = request.url.split('?')[0];
  if (path === '/health') response.writeHead(200).end();
  else if (path === '/version') json(response, { version: 'fake' });
  else if (path === '/v1/models')
    json(response, { data: [{ id: value('--served-model-name'), root: args[1], max_model_len: 512 }] });
  else if (path === '/openapi.json') json(response, { paths: { '/inference/v1/generate': {} } });
  else if (path === '/args')
    json(response, {
      args,
      env: { seed: process.env.PYTHONHASHSEED, lora: process.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING },
    });
  else if (path === '/metrics')
    response.end(
      'vllm:cache_config_info{block_size="16",num_gpu_blocks="64"} 1\nvllm:num_requests_running{engine="0"} 0\n',
    );
  else if (path === '/die') process.exit(3);
  else if (path !== '/inference/v1/generate') json(response, { detail: 'Not Found' }, 404);
  else if (JSON.parse(text).stream !== true) json(response, chunk([7], 'length'));
  else {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`data: ${JSON.stringify(chunk([65, 66], null))}\n\n`);
    if (!process.env.FAKE_HANGS) response.end(`data: ${JSON.stringify(chunk([67], 'length'))}\n\ndata: [DONE]\n\n`);
  }
});
server.listen(Number(value('--port')), '127.0.0.1', () => console.log('INFO ready'));
