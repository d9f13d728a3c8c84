// What the dialects cost: checking a 200-message chat beside JSON.parse, and streams of Responses and Messages beside
// those of chat. `node bench/dialects.mjs [--json]`. The server is the real one over sockets, with tokens from memory
// behind it; a process of its own reads the streams, so that only the server's CPU time counts.
import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const MESSAGES = 200;
const CHECK_ROUNDS = 300;
const CHECK_RATIO_MAX = 3;
const STREAMS = 32;
const TOKENS = 256;
const REQUESTS = 1000;
const STREAM_ROUNDS = 3;
const STREAM_RATIO_MAX = 1.3;
const QUESTION = { model: 'm', stream: true };
const USER = [{ role: 'user', content: 'hi' }];
const DIALECTS = [
  { name: 'chat', path: '/v1/chat/completions', body: { ...QUESTION, messages: USER } },
  { name: 'Responses', path: '/v1/responses', body: { ...QUESTION, input: 'hi' } },
  { name: 'Messages', path: '/v1/messages', body: { ...QUESTION, messages: USER, max_tokens: 999 } },
];

if (process.send !== undefined) await readStreams();
else await measureAll();

async function measureAll() {
  const folder = await mkdtemp(join(process.cwd(), 'node_modules', '.bench-dialects-'));
  try {
    const parts = await bundle(join(folder, 'server.mjs'));
    const rows = [checkRow(parts), ...(await streamRows(parts))];
    if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
    else console.table(rows);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function bundle(outfile) {
  const rooms = ['clock', 'config', 'protocol', 'telemetry'];
  const inside = ['http/app', 'http/settings', 'inference/deps', 'inference/lifecycle', 'node/server'];
  const files = [
    ...rooms.map((room) => `${room}/index`),
    'pipeline/pipeline',
    'telemetry/log/logger',
    ...inside.map((file) => `frontends/${file}`),
  ];
  const contents = files.map((file) => `export * from './shared/${file}.ts';`).join('\n');
  const stdin = { contents, resolveDir: process.cwd(), loader: 'ts' };
  const target = { platform: 'node', format: 'esm', target: 'node20', packages: 'external' };
  await build({ stdin, outfile, bundle: true, ...target, logLevel: 'error' });
  return import(outfile);
}

/** Reading the body is not part of checking it. */
function checkRow({ parseChatBody, decodeChat, systemRandom, ...parts }) {
  const messages = Array.from({ length: MESSAGES }, (_, at) => message(at));
  const text = JSON.stringify({ model: 'm', messages, temperature: 0.7, max_tokens: 100 });
  const headers = { headerNames: () => [], header: () => undefined };
  const context = { headers, settings: settingsOf(parts).decode, random: systemRandom, warn: () => {} };
  const parseUs = fastestUs(() => JSON.parse(text));
  const value = JSON.parse(text);
  const checkUs = fastestUs(() => decodeChat(parseChatBody({ value }), context));
  return row(`check a chat of ${MESSAGES} messages`, 'us', checkUs, parseUs, CHECK_RATIO_MAX);
}

/** A long agent's turn in four: question, call, result, answer. */
function message(at) {
  const content = 'The quick brown fox jumps over the lazy dog. '.repeat(6);
  if (at % 4 === 0) return { role: 'user', content: [{ type: 'text', text: content }] };
  if (at % 4 === 3) return { role: 'assistant', content };
  if (at % 4 === 2) return { role: 'tool', tool_call_id: `call_${at - 1}`, content };
  const call = { name: 'read_file', arguments: JSON.stringify({ path: '/a/b/c.ts', offset: at }) };
  return { role: 'assistant', content: null, tool_calls: [{ id: `call_${at}`, type: 'function', function: call }] };
}

function fastestUs(work) {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < CHECK_ROUNDS; round++) {
    const started = performance.now();
    work();
    best = Math.min(best, performance.now() - started);
  }
  return best * 1000;
}

async function streamRows(parts) {
  const server = await startServer(parts);
  const best = new Map();
  try {
    for (let round = 0; round <= STREAM_ROUNDS; round++) {
      for (const dialect of DIALECTS) {
        const us = await cpuUsPerToken(server.url, dialect);
        if (round > 0) best.set(dialect, Math.min(us, best.get(dialect) ?? us)); // the first warms up
      }
    }
  } finally {
    await server.close(0);
  }
  const [chat, ...others] = DIALECTS;
  return others.map((one) =>
    row(`stream of ${one.name}`, 'us a token', best.get(one), best.get(chat), STREAM_RATIO_MAX),
  );
}

function row(what, unit, value, beside, ratioMax) {
  const ratio = value / beside;
  const round = (number) => Math.round(number * 100) / 100;
  return {
    what,
    unit,
    value: round(value),
    beside: round(beside),
    ratio: round(ratio),
    'in target': ratio <= ratioMax,
  };
}

/** Those of a frontend that is started without a setting. */
function settingsOf({ httpSettings, resolveConfig }) {
  return httpSettings(resolveConfig('frontend', [], {}).settings);
}

async function startServer(parts) {
  const { createHttpApp, createFrontendMetrics, ServiceLifecycle, silentLogger } = parts;
  const lifecycle = new ServiceLifecycle();
  lifecycle.discovered();
  const app = createHttpApp({
    pipeline: steppingPipeline(parts),
    metrics: createFrontendMetrics(),
    logger: silentLogger,
    clock: parts.systemClock,
    random: parts.systemRandom,
    settings: {
      ...parts.httpSettings(parts.resolveConfig('frontend', [], {}).settings),
      anthropic: { isEnabled: true, stripsPreamble: true },
    },
    bodies: new parts.ByteBudget('bodies_bytes', 1024 ** 3),
    answers: new parts.ByteBudget('answers_bytes', 1024 ** 3),
    responseStore: undefined,
    instances: () => [],
    lifecycle,
  });
  return parts.startHttpServer(app, { host: '127.0.0.1', port: 0, lifecycle, logger: silentLogger });
}

/** Writes a token of every request in one turn, as a worker's frame does. */
function steppingPipeline({ BusyThresholds }) {
  const card = { model_type: ['Chat'], model_input: 'Tokens', runtime_config: {} };
  const readiness = { isReady: true, reason: undefined, namespaces: {} };
  const model = { name: 'm', primaryName: 'm', card, contextLength: 4096, readiness };
  const running = new Set();
  const step = () => {
    for (const one of running) {
      one.meter.outputTokens(1);
      if (one.left-- > 0) one.sink.text(0, ' token', 1);
      else {
        running.delete(one);
        one.sink.finish({ choice: 0, text: '', tokenIds: [], reason: 'stop' });
        one.sink.end({ promptTokens: 1, completionTokens: TOKENS }, true);
      }
    }
    if (running.size > 0) setImmediate(step);
  };
  const models = { list: () => [model], find: (name) => (name === 'm' ? model : undefined) };
  return {
    models,
    requestable: models,
    thresholds: new BusyThresholds(),
    generate(_request, sink, { meter }) {
      meter.promptTokens(1);
      running.add({ sink, meter, left: TOKENS });
      if (running.size === 1) setImmediate(step);
    },
  };
}

async function cpuUsPerToken(url, { path, body }) {
  const reader = fork(fileURLToPath(import.meta.url));
  await new Promise((resolve) => reader.once('message', resolve)); // it is up
  const before = process.cpuUsage();
  reader.send({ url: url + path, body });
  await new Promise((resolve, reject) => {
    reader.once('message', resolve);
    reader.once('exit', (code) => reject(new Error(`the reader ended with ${code}`)));
  });
  const { user, system } = process.cpuUsage(before);
  reader.removeAllListeners('exit');
  reader.disconnect();
  return (user + system) / (REQUESTS * TOKENS);
}

/** Runs in the other process: reads a fixed number of streams at a time to their ends. */
async function readStreams() {
  const asked = new Promise((resolve) => process.once('message', resolve));
  process.send('ready');
  const { url, body } = await asked;
  let left = REQUESTS;
  const readOn = async () => {
    while (left-- > 0) await readOne(url, JSON.stringify(body));
  };
  await Promise.all(Array.from({ length: STREAMS }, readOn));
  process.send('done');
}

function readOne(url, body) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    request(url, { method: 'POST', headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response.on('end', resolve).resume();
    })
      .on('error', reject)
      .end(body);
  });
}
