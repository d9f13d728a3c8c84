// npm run bench:part -- bench/cold-function.ts [--rounds 5] [--json] [--directory BUNDLE]
//
// CPU and memory of a function that starts cold and answers one chat, in fleets of other models: it is not to grow with
// the fleet.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { bundleFunction } from '../infra/bundle.ts';
import { createTestTable } from '../test/contract/discovery/test-table.ts';
import { startDynamoDb } from '../test/support/dynamodb-server.ts';
import { setup } from '../test/support/global-setup.ts';
import { startLambdaRuntime } from '../test/support/lambda-runtime.ts';
import { makeUpFleet } from '../test/support/made-up-fleet.ts';
import { cpuMsOf } from '../test/support/process-table.ts';
import { spawnProgram } from '../test/support/spawn-node.ts';
import { median } from './kserve/alternate.ts';
import { residentMiB } from './processes.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean', default: false },
    /** A bundle to measure instead of the one that would be deployed. */
    directory: { type: 'string' },
  },
});

const MODEL = 'measured';
/** Until a worker that is ready is in the view. */
const SHOWN_MS_MAX = 20_000;
/** Others than the asked one. */
const MODELS = 20;
/** Workers of other models, and how much more than among the fewest a start may cost. */
const FLEETS = [
  { workers: 2, ratioMax: 1 },
  { workers: 1000, ratioMax: 1.3 },
  { workers: 10_000, ratioMax: 1.5 },
] as const;
const FIGURES = ['CPU of init ms', 'CPU with a chat ms', 'resident MiB'] as const;
type Figures = Readonly<Record<(typeof FIGURES)[number], number>>;

const temporary = mkdtempSync(join(tmpdir(), 'stator-cold-function-'));
const directory = values.directory === undefined ? join(temporary, 'function') : resolve(values.directory);
await setup();
if (values.directory === undefined) await bundleFunction({ outdir: directory });
const server = await startDynamoDb();
const measured: Figures[] = [];
for (const { workers } of FLEETS) measured.push(await measureFleet(workers));
await server.stop();
rmSync(temporary, { recursive: true, force: true });

const rows = FLEETS.flatMap(({ workers, ratioMax }, at) =>
  FIGURES.map((figure) => {
    const [value, least] = [measured[at]?.[figure] ?? Number.NaN, measured[0]?.[figure] ?? Number.NaN];
    const ratio = value / least;
    const bound = `${ratio.toFixed(2)} x that among ${FLEETS[0].workers}, ${ratio <= ratioMax ? 'holds' : 'MISSED'} (at most ${ratioMax})`;
    return { workload: `cold ${workers}`, figure, values: { stator: value }, verdict: at === 0 ? '' : bound };
  }),
);
if (values.json) console.log(JSON.stringify(rows));
else
  for (const {
    workload,
    figure,
    values: { stator },
    verdict,
  } of rows)
    console.log(`${workload.padEnd(12)} ${figure.padEnd(20)} ${stator.toFixed(1).padStart(9)}  ${verdict}`);
process.exit(0);

/** Medians of some cold starts, each with one chat with the only worker that is there. */
async function measureFleet(workers: number): Promise<Figures> {
  const table = await createTestTable(server.url);
  const where = {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: table.tableName,
    STATOR_DYNAMODB_ENDPOINT: server.url,
  };
  const place = { tableName: table.tableName, endpoint: server.url };
  const fleet = await makeUpFleet(place, { count: workers, models: MODELS, everyMs: 1000 });
  const loopback = { DYN_EVENT_PLANE: 'zmq', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_TCP_RPC_HOST: '127.0.0.1' };
  const model = `--model-path=${resolve('shared/artifacts/builtin-model')}`;
  const flags = ['--engine=mocker', '--mock-output=random', model, `--model-name=${MODEL}`];
  const worker = spawnProgram(process.execPath, ['dist/stator.js', 'worker', ...flags], {
    env: { ...where, ...loopback },
  });
  await worker.waitForOutput(/worker is ready/, 60_000);
  const env = {
    ...where,
    STATOR_AUTH: 'off',
    DYN_REQUEST_PLANE: 'tcp',
    STATOR_ARTIFACTS_CACHE_DIR: join(temporary, 'models'),
  };
  const all: Record<(typeof FIGURES)[number], number[]> = {
    'CPU of init ms': [],
    'CPU with a chat ms': [],
    'resident MiB': [],
  };
  const beganMs = performance.now();
  for (let round = 0; round <= Number(values.rounds); round++) {
    const runtime = await startLambdaRuntime({ directory, env, environmentsMax: 1, freeze: false });
    const response = await fetch(`${runtime.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] }),
    });
    const text = await response.text();
    if (round === 0 && response.status === 404 && performance.now() - beganMs < SHOWN_MS_MAX)
      round--; // the view does not have the worker yet
    else if (response.status !== 200) throw new Error(`${response.status} ${text} ${runtime.output()}`);
    await runtime.idle();
    const pid = runtime.environments()[0]?.pid ?? 0;
    if (round > 0) {
      all['CPU of init ms'].push(runtime.stats.initCpuMs[0] ?? Number.NaN);
      all['CPU with a chat ms'].push(cpuMsOf(pid) ?? Number.NaN);
      all['resident MiB'].push(residentMiB(pid));
    }
    await runtime.stop();
  }
  await worker.kill();
  await fleet.close();
  await table.drop();
  return {
    'CPU of init ms': median(all['CPU of init ms']),
    'CPU with a chat ms': median(all['CPU with a chat ms']),
    'resident MiB': median(all['resident MiB']),
  };
}
