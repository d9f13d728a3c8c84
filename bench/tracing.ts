/**
 * Measures what traces cost a request, in process CPU time and in bytes allocated. One request is a unary chat over a
 * scripted pipeline, with the spans of the transport and of the model. The other is a unary inference of KServe through
 * the pipeline, with the spans of tokens, route and worker too. Each runs without a tracer, with one that samples
 * nothing, and with one that samples everything.
 *
 *     npm run bench:part -- bench/tracing.ts [--json]
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock, systemRandom } from '../shared/clock/index.ts';
import { Tracer } from '../shared/telemetry/index.ts';
import { openChat, openInfer } from './bare-requests.ts';

const REQUESTS_A_ROUND = 250;
const ROUNDS = 120;
/** So few that what they allocate fits into the young generation, and nothing is collected meanwhile. */
const REQUESTS_A_WEIGHING = 20;
const WEIGHINGS = 40;
const HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  host: 'localhost:8000',
  'user-agent': 'bench/1.0',
  ':authority': 'localhost:8001',
};

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

type Ask = () => Promise<void>;

async function askTimes(ask: Ask, count: number): Promise<void> {
  for (let at = 0; at < count; at++) await ask();
}

/** CPU of one request of each at its quickest: whatever else a machine does only adds to a round. They take turns. */
async function leastUs(asks: readonly Ask[]): Promise<readonly number[]> {
  const least = asks.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [at, ask] of asks.entries()) {
      const before = process.cpuUsage();
      await askTimes(ask, REQUESTS_A_ROUND);
      const { user, system } = process.cpuUsage(before);
      least[at] = Math.min(least[at]!, (user + system) / REQUESTS_A_ROUND);
    }
  }
  return least;
}

/** Median of what one request allocates. */
async function bytesOf(ask: Ask): Promise<number> {
  const weights: number[] = [];
  for (let at = 0; at < WEIGHINGS; at++) {
    collect();
    const before = process.memoryUsage().heapUsed;
    await askTimes(ask, REQUESTS_A_WEIGHING);
    weights.push((process.memoryUsage().heapUsed - before) / REQUESTS_A_WEIGHING);
  }
  return weights.sort((a, b) => a - b)[WEIGHINGS >> 1]!;
}

let spans = 0;
const tracerOf = (sampler: 'always_off' | 'always_on'): Tracer =>
  new Tracer({ clock: systemClock, random: systemRandom, sampler, sinks: [{ ended: () => void spans++ }] });

const TRACERS = {
  'no tracer': undefined,
  'samples none': tracerOf('always_off'),
  'samples all': tracerOf('always_on'),
};
const rows: { readonly what: string; readonly us: number; readonly bytes: number }[] = [];

async function measure(what: string, asks: readonly Ask[]): Promise<void> {
  for (const ask of asks) await askTimes(ask, 20 * REQUESTS_A_ROUND);
  const us = await leastUs(asks);
  for (const [at, name] of Object.keys(TRACERS).entries()) {
    rows.push({ what: `${what}, ${name}`, us: us[at]!, bytes: await bytesOf(asks[at]!) });
  }
}

const parts = Object.values(TRACERS).map((tracer) => (tracer === undefined ? {} : { tracer }));
await measure(
  'chat',
  parts.map((each) => openChat(HEADERS, each)),
);
const inferences = await Promise.all(parts.map((each) => openInfer(HEADERS, each)));
await measure(
  'KServe',
  inferences.map(({ ask }) => ask),
);
for (const { close } of inferences) await close();

if (process.argv.includes('--json')) console.log(JSON.stringify(rows, undefined, 2));
else {
  console.log('| What | us a request | bytes a request |\n| --- | --- | --- |');
  for (const { what, us, bytes } of rows) console.log(`| ${what} | ${us.toFixed(2)} | ${bytes.toFixed(0)} |`);
}
if (spans === 0) throw new Error('no span was made');
