// npm run bench:part -- bench/lambda-start.ts [--rounds 9] [--directory BUNDLE] [--model FOLDER]
//
// What a cold start of the deployed function costs: Node 22 under the runtime client of Lambda, a DynamoDB server
// beside it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { bundleFunction } from '../infra/bundle.ts';
import { createTestTable } from '../test/contract/discovery/test-table.ts';
import { startDynamoDb } from '../test/support/dynamodb-server.ts';
import { setup } from '../test/support/global-setup.ts';
import { startLambdaRuntime } from '../test/support/lambda-runtime.ts';
import { cpuMsOf } from '../test/support/process-table.ts';
import { spawnProgram } from '../test/support/spawn-node.ts';
import { residentMiB } from './processes.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    /** A bundle to measure instead of the one that would be deployed. */
    directory: { type: 'string' },
    /** A model that a worker serves; its memory and the time to its first answer are measured too. */
    model: { type: 'string' },
    /** Further variables of the function, NAME=VALUE. */
    env: { type: 'string', multiple: true, default: [] },
  },
});

const MODEL = 'measured';
const temporary = mkdtempSync(join(tmpdir(), 'stator-lambda-start-'));
const directory = values.directory === undefined ? join(temporary, 'function') : resolve(values.directory);
await setup();
if (values.directory === undefined) {
  const { bytes, initBytes } = await bundleFunction({ outdir: directory });
  console.log(`bundle: init ${(initBytes / 2 ** 20).toFixed(3)} MiB of ${(bytes / 2 ** 20).toFixed(2)} MiB`);
}
const server = await startDynamoDb();
const table = await createTestTable(server.url);
const where = {
  DYN_DISCOVERY_BACKEND: 'dynamodb',
  STATOR_DISCOVERY_TABLE: table.tableName,
  STATOR_DYNAMODB_ENDPOINT: server.url,
};
const env = {
  ...where,
  STATOR_AUTH: 'off',
  DYN_REQUEST_PLANE: 'tcp',
  STATOR_ARTIFACTS_CACHE_DIR: join(temporary, 'models'),
  ...Object.fromEntries(
    values.env.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  ),
};
const worker = values.model === undefined ? undefined : await startWorker(values.model);

const rows: Record<string, number[]> = {};
const note = (name: string, value: number | undefined): void => {
  rows[name] ??= [];
  if (value !== undefined) rows[name].push(value);
};
for (let round = 0; round <= Number(values.rounds); round++) {
  const runtime = await startLambdaRuntime({ directory, env, environmentsMax: 1, freeze: false });
  const startedMs = performance.now();
  const response = await fetch(`${runtime.url}/v1/models`);
  const firstByteMs = performance.now() - startedMs;
  await response.text();
  await runtime.idle();
  const pid = runtime.environments()[0]?.pid ?? 0;
  if (round > 0) {
    note('spawn to next, ms', runtime.stats.initMs[0]);
    note('CPU to next, ms', runtime.stats.initCpuMs[0]);
    note('spawn to first byte of /v1/models, ms', firstByteMs);
    note('CPU to the answer of /v1/models, ms', cpuMsOf(pid));
    note('resident after /v1/models, MiB', residentMiB(pid));
    if (worker !== undefined) {
      const askedMs = performance.now();
      const body = { model: MODEL, max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] };
      const headers = { 'content-type': 'application/json' };
      const chat = await fetch(`${runtime.url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      const text = await chat.text();
      if (chat.status !== 200) throw new Error(`${chat.status} ${text} ${runtime.output()}`);
      note('first chat, ms', performance.now() - askedMs);
      await runtime.idle();
      note('resident after a chat, MiB', residentMiB(pid));
      note('highest resident, MiB', residentMiB(pid, 'VmHWM'));
      note('CPU to the end of the chat, ms', cpuMsOf(pid));
    }
  }
  await runtime.stop();
}
await worker?.kill();
await table.drop();
await server.stop();
rmSync(temporary, { recursive: true, force: true });
for (const [name, list] of Object.entries(rows)) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN).toFixed(0);
  console.log(
    `${name.padEnd(42)} median ${at(0.5).padStart(5)}  least ${at(0).padStart(5)}  most ${at(1).padStart(5)}`,
  );
}
process.exit(0);

async function startWorker(model: string) {
  const flags = ['--engine=mocker', '--mock-output=random', `--model-path=${model}`, `--model-name=${MODEL}`];
  const loopback = { DYN_EVENT_PLANE: 'zmq', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_TCP_RPC_HOST: '127.0.0.1' };
  const child = spawnProgram(process.execPath, ['dist/stator.js', 'worker', ...flags], {
    env: { ...where, ...loopback },
  });
  await child.waitForOutput(/worker is ready/, 30_000);
  return child;
}
