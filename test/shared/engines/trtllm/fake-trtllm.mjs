// A stand-in for `trtllm-serve`: ids in and out, separate prefill and decode, and a cache of blocks. It hands out each
// event of the cache once.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const args = process.argv.slice(2);
const value = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
const options = JSON.parse(readFileSync(value('--extra_llm_api_options') ?? '/dev/stdin', 'utf8'));
const { tokens_per_block: size = 32, event_buffer_max_size: bufferMax = 0 } = options.kv_cache_config ?? {};
const model = args[0].split('/').findLast((part) => part !== '');

/** Fields that the real server takes. This one refuses all others. */
const FIELDS = new Set(
  (
    'model prompt n best_of stream stream_options max_tokens min_tokens temperature top_p top_k min_p seed logprobs logit_bias stop ' +
    'frequency_penalty presence_penalty repetition_penalty stop_token_ids ignore_eos detokenize response_format ' +
    'disaggregated_params thinking_token_budget'
  ).split(' '),
);

const held = new Set();
const events = [];
let eventId = 0;
const received = [];

const json = (response, text, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(text);
const refuse = (response, message) =>
  json(response, JSON.stringify({ object: 'error', message, type: 'BadRequestError', code: 400 }), 400);

const note = (data) => {
  if (bufferMax > 0) events.push(`{"event_id":${eventId++},"data":${data},"window_size":4096}`);
};
note('{"type":"created","num_blocks_per_cache_level":[256,0]}');

/** FNV-1a over the whole prefix, 64 bits: numbers that no double holds. */
function hashOf(ids) {
  let hash = 0xcbf29ce484222325n;
  for (const id of ids) hash = ((hash ^ BigInt(id)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash;
}

/** Leading tokens that are cached; the others are from now on. */
function store(prompt) {
  let cached = 0;
  let parent = null;
  const fresh = [];
  for (let end = size; end <= prompt.length; end += size) {
    const hash = hashOf(prompt.slice(0, end));
    if (held.has(hash)) {
      cached = end;
      parent = hash;
      continue;
    }
    held.add(hash);
    const tokens = prompt
      .slice(end - size, end)
      .map((id) => `{"type":"unique_token","token_id":${id},"token_extra_id":0}`);
    fresh.push(`{"type":"stored_block","block_hash":${hash},"tokens":[${tokens}],"cache_level":0,"priority":35}`);
  }
  const rest = prompt.slice(prompt.length - (prompt.length % size));
  const part = rest.map((id) => `{"type":"unique_token","token_id":${id},"token_extra_id":0}`);
  if (part.length > 0)
    fresh.push(
      `{"type":"stored_block","block_hash":${hashOf(prompt)},"tokens":[${part}],"cache_level":0,"priority":35}`,
    );
  if (fresh.length > 0) note(`{"type":"stored","parent_hash":${parent},"blocks":[${fresh}]}`);
  return cached;
}

function complete(response, text) {
  const body = JSON.parse(text);
  received.push(text);
  const unknown = Object.keys(body).find((key) => !FIELDS.has(key));
  if (unknown !== undefined) return refuse(response, `Extra inputs are not permitted: ${unknown}`);
  if (body.detokenize !== false) return refuse(response, 'this stand-in has no tokenizer');
  const kind = body.disaggregated_params?.request_type;
  // A number of 19 digits that has passed through a double is another one.
  if (kind === 'generation_only' && !text.includes('"ctx_request_id":9007199254740993123'))
    return refuse(response, 'no such context');
  const cached = store(body.prompt);
  const usage = (count) => ({
    prompt_tokens: body.prompt.length,
    completion_tokens: count,
    total_tokens: body.prompt.length + count,
    prompt_tokens_details: { cached_tokens: cached },
  });
  const count = body.max_tokens ?? 4;
  const idAt = (at) => body.prompt[at % body.prompt.length];
  if (body.stream !== true) {
    const ids = Array.from({ length: count }, (_, at) => idAt(at));
    const choice = {
      index: 0,
      text: '',
      token_ids: ids,
      finish_reason: kind === 'context_only' ? 'not_finished' : 'length',
      stop_reason: null,
    };
    const answer = JSON.stringify({
      id: 'c',
      object: 'text_completion',
      model,
      choices: [choice],
      usage: usage(count),
    });
    const params = `"disaggregated_params":{"request_type":"context_only","first_gen_tokens":[${ids[0]}],"ctx_request_id":9007199254740993123,"encoded_opaque_state":"AAEC"}`;
    return json(response, kind === 'context_only' ? answer.replace('"text":""', `"text":"",${params}`) : answer);
  }
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (let at = 0; at < count; at++) {
    const choice = {
      index: 0,
      text: '',
      token_ids: [idAt(at)],
      logprobs: null,
      finish_reason: at === count - 1 ? 'length' : null,
      stop_reason: null,
    };
    response.write(
      `data: ${JSON.stringify({ id: 'c', object: 'text_completion', model, choices: [choice], usage: null })}\n\n`,
    );
  }
  response.write(
    `data: ${JSON.stringify({ id: 'c', object: 'text_completion', model, choices: [], usage: usage(count) })}\n\n`,
  );
  return response.end('data: [DONE]\n\n');
}

/** Chats with media alone come here. */
function see(response, text) {
  received.push(text);
  const message = { role: 'assistant', content: 'a cat' };
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  const usage = { prompt_tokens: 300, completion_tokens: 2, total_tokens: 302 };
  json(response, JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model, choices, usage }));
}

const METRICS =
  'trtllm_num_requests_running{model_name="m"} 0\ntrtllm_kv_cache_utilization{model_name="m"} 0.5\npython_info 1\n';
const routes = {
  'GET /health': (response) => response.writeHead(200).end(),
  'GET /version': (response) => json(response, '{"version":"1.2.1"}'),
  'GET /v1/models': (response) =>
    json(response, JSON.stringify({ object: 'list', data: [{ id: model, object: 'model' }] })),
  'GET /metrics': (response) =>
    json(response, JSON.stringify([{ iter: 1, kvCacheStats: { maxNumBlocks: 256, tokensPerBlock: size } }])),
  'GET /prometheus/metrics': (response) => response.writeHead(200).end(METRICS),
  'POST /kv_cache_events': (response) => setTimeout(() => json(response, `[${events.splice(0)}]`), 20),
  'GET /received': (response) => json(response, JSON.stringify({ args, options, received })),
};

createServer(async (request, response) => {
  let text = '';
  for await (const part of request) text += part;
  const route = `${request.method} ${request.url.split('?')[0]}`;
  if (route === 'POST /v1/completions') return complete(response, text);
  if (route === 'POST /v1/chat/completions') return see(response, text);
  return routes[route] === undefined ? json(response, '{"detail":"Not Found"}', 404) : routes[route](response);
}).listen(Number(value('--port')), '127.0.0.1');
