// CPU of the caller per token on the TCP request plane: two processes over loopback, a worker that writes the tokens of
// all its streams once a step, and a caller that counts them. `node bench/request-plane.mjs [--json]`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const CASES = [
  { name: 'bursts', streams: 32, tokens: 256, stepMs: 0, requests: 6400 },
  { name: 'steps of 5.8 ms', streams: 32, tokens: 256, stepMs: 5.8, requests: 192 },
  { name: 'slow streams', streams: 1000, tokens: 64, stepMs: 75, requests: 1000 },
  { name: 'unary, 8 tokens', streams: 64, tokens: 8, stepMs: 0, requests: 20_000 },
];
const ENDPOINT = '2a/bench/backend/generate';

if (process.argv[2] === 'worker') await serve(process.argv[3]);
else await measureAll();

async function measureAll() {
  const folder = await mkdtemp(join(process.cwd(), 'node_modules', '.bench-planes-'));
  try {
    const module = join(folder, 'planes.mjs');
    await bundle(module);
    const worker = spawn(process.execPath, [fileURLToPath(import.meta.url), 'worker', module], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = await once(worker.stdout.setEncoding('utf8'), 'data');
    const rows = [];
    try {
      for (const each of CASES) rows.push(await measure(module, JSON.parse(line), each));
    } finally {
      worker.kill();
    }
    if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
    else console.table(rows);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function bundle(outfile) {
  const contents = `export * from './shared/planes/request/tcp/plane.ts'; export { systemClock } from './shared/clock/index.ts';`;
  const stdin = { contents, resolveDir: process.cwd(), loader: 'ts' };
  await build({
    stdin,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    outfile,
    packages: 'external',
  });
}

/** The worker: every call gets `body.tokens` tokens, one a step, all streams of a step in one turn. */
async function serve(module) {
  const { createTcpRequestPlane, systemClock } = await import(module);
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
  const server = await plane.serve({ instanceId: '2a' });
  const active = new Set();
  const ids = Uint32Array.of(12_345);
  let isRunning = false;
  const step = () => {
    for (const entry of active) {
      if (entry.call.signal.aborted) active.delete(entry);
      else if (entry.call.isBlocked()) continue;
      else if (entry.left-- > 0) entry.call.tokens(0, ids, 0, 1);
      else {
        entry.call.output({ finish_reason: 'length' });
        entry.call.end();
        active.delete(entry);
      }
    }
    if (active.size > 0) again();
    else isRunning = false;
  };
  let stepMs = 0;
  let dueMs = 0;
  const again = () => {
    dueMs += stepMs;
    if (stepMs === 0) setImmediate(step);
    else setTimeout(step, Math.max(0, dueMs - performance.now()));
  };
  const transport = server.handle(ENDPOINT, (call) => {
    active.add({ call, left: call.body.tokens });
    stepMs = call.body.stepMs;
    if (isRunning) return;
    isRunning = true;
    dueMs = performance.now();
    again();
  });
  console.log(JSON.stringify(transport));
  process.stdin.resume().on('end', () => process.exit());
}

/** The caller: keeps `streams` calls under way until `requests` have ended, and divides its own CPU time. */
async function measure(module, transport, each) {
  const { createTcpRequestPlane, systemClock } = await import(module);
  const observed = { bytesReceived: 0, reads: 0 };
  const observer = {
    bytesReceived: (count) => {
      observed.bytesReceived += count;
      observed.reads++;
    },
  };
  const silent = ['bytesSent', 'connectionError', 'inflight', 'queued', 'acknowledged', 'firstOutput', 'cancelled'];
  for (const name of silent) observer[name] = () => {};
  const plane = createTcpRequestPlane({ clock: systemClock, observer });
  await callMany(plane, transport, { ...each, requests: each.streams }); // connects and warms up
  observed.reads = 0;
  observed.bytesReceived = 0;
  const before = process.cpuUsage();
  const startMs = performance.now();
  const tokens = await callMany(plane, transport, each);
  const cpu = process.cpuUsage(before);
  const cpuUs = cpu.user + cpu.system;
  await plane.close();
  return {
    case: each.name,
    'CPU us a token': Number((cpuUs / tokens).toFixed(3)),
    'CPU us a request': Number((cpuUs / each.requests).toFixed(1)),
    'tokens a read': Number((tokens / observed.reads).toFixed(1)),
    'tokens a second': Math.round(tokens / ((performance.now() - startMs) / 1000)),
  };
}

function callMany(plane, transport, { streams, tokens, stepMs, requests }) {
  return new Promise((resolve, reject) => {
    let started = 0;
    let ended = 0;
    let received = 0;
    const tokenIds = Uint32Array.from({ length: 64 }, (_, at) => at);
    const sink = {
      accepted() {},
      tokens(_choice, ids, start, count) {
        for (let at = start; at < start + count; at++) if (ids[at] !== 12_345) reject(new Error('a wrong token'));
        received += count;
      },
      output() {},
      end() {
        ended++;
        if (started < requests) start();
        else if (ended === requests) resolve(received);
      },
      fail: reject,
    };
    const start = () => {
      const id = String(started++);
      plane.call(transport, { id, headers: {}, body: { tokens, stepMs }, tokenIds }, sink);
    };
    for (let at = 0; at < Math.min(streams, requests); at++) start();
  });
}
