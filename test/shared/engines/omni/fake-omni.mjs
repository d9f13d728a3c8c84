// A stand-in for `vllm-omni serve MODEL --omni`: it draws what it was asked, as text.
import { createServer } from 'node:http';

const args = process.argv.slice(2);
const value = (name) => args[args.indexOf(name) + 1];
const name = value('--served-model-name');
const received = [];
let isDead = false;

const json = (response, body, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const refuse = (response, detail) => json(response, { detail }, 400);

const drawn = (what) => Buffer.from(JSON.stringify(what)).toString('base64');

function draw(response, fields, files) {
  received.push({ fields, files });
  if (fields.model !== name) return refuse(response, `Model mismatch: request specifies '${fields.model}'`);
  if (fields.size !== undefined && !/^\d+x\d+$/.test(fields.size)) return refuse(response, 'size must be WIDTHxHEIGHT');
  const data = Array.from({ length: Number(fields.n ?? 1) }, () => ({
    b64_json: drawn({ fields, files }),
    url: null,
    revised_prompt: null,
  }));
  return json(response, { created: 7, data, output_format: 'png', size: fields.size, metrics: { peak_memory_mb: 1 } });
}

async function formOf(request, bytes) {
  const form = await new Response(bytes, { headers: { 'content-type': request.headers['content-type'] } }).formData();
  const fields = {};
  const files = [];
  for (const [field, each] of form) {
    if (typeof each === 'string') fields[field] = each;
    else files.push({ field, type: each.type, text: Buffer.from(await each.arrayBuffer()).toString('latin1') });
  }
  return { fields, files };
}

const routes = {
  'GET /health': (response) => json(response, { status: isDead ? 'unhealthy' : 'healthy' }, isDead ? 503 : 200),
  'GET /v1/models': (response) => json(response, { object: 'list', data: [{ id: name, object: 'model' }] }),
  'GET /received': (response) => json(response, { args, received }),
  'POST /die': (response) => {
    isDead = true;
    json(response, {});
  },
  'POST /v1/chat/completions': (response, _request, bytes) => {
    const { messages, model } = JSON.parse(bytes);
    received.push({ model, messages });
    const message = {
      role: 'assistant',
      content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
    };
    json(response, {
      id: 'c',
      object: 'chat.completion',
      created: 7,
      model,
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    });
  },
  'POST /v1/images/generations': (response, _request, bytes) => draw(response, JSON.parse(bytes), []),
  'POST /v1/images/edits': async (response, request, bytes) => {
    const { fields, files } = await formOf(request, bytes);
    draw(response, fields, files);
  },
  'POST /v1/videos/sync': async (response, request, bytes) => {
    const { fields, files } = await formOf(request, bytes);
    received.push({ fields, files });
    response.writeHead(200, { 'content-type': 'video/mp4', 'x-inference-time-s': '1.5' });
    response.end(Buffer.from(`\0\0\0\x18ftypisom\xff${fields.prompt}`, 'latin1'));
  },
};

createServer(async (request, response) => {
  const chunks = [];
  for await (const part of request) chunks.push(part);
  const route = routes[`${request.method} ${request.url.split('?')[0]}`];
  if (route === undefined) json(response, { detail: 'Not Found' }, 404);
  else await route(response, request, Buffer.concat(chunks));
}).listen(Number(value('--port')), '127.0.0.1');
