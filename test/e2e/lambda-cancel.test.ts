import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';
import { issueKey } from '../../shared/access/index.ts';
import { DynamoDbKeyStore } from '../../shared/access/keys/dynamodb-key-store.ts';
import { systemClock } from '../../shared/clock/index.ts';
import { createTestTable, type TestTable } from '../contract/discovery/test-table.ts';
import {
  createTable,
  type DynamoDbServer,
  hasDynamoDb,
  postJson,
  type SpawnedProcess,
  spawnStator,
  sseData,
  startDynamoDb,
  waitUntil,
} from '../support/index.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../support/lambda-runtime.ts';

const MODEL = 'builtin';
const SHARED = { STATOR_ID_SECRET: 'a-secret-that-all-instances-are-given' };

let directory: string;
let server: DynamoDbServer;
let table: TestTable;
let runtime: LambdaRuntime;
let bearer: Readonly<Record<string, string>>;
let stranger: Readonly<Record<string, string>>;
let worker: SpawnedProcess;

/** Where workers and functions meet. */
function discoveryEnvironment(): Record<string, string> {
  return {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: table.tableName,
    STATOR_DYNAMODB_ENDPOINT: table.endpoint,
  };
}

/** Headers of a client of its own. */
async function makeKey(tableName: string): Promise<{ readonly authorization: string }> {
  const store = await DynamoDbKeyStore.open({ tableName, endpoint: server.url });
  const { text } = await issueKey(store, systemClock, { name: 'client', scopes: ['inference'], limits: {} });
  store.close();
  return { authorization: `Bearer ${text}` };
}

function startMockWorker(): SpawnedProcess {
  const model = resolve('shared/artifacts/builtin-model');
  const flags = ['--engine=mocker', '--mock-output=random', `--model-path=${model}`, `--model-name=${MODEL}`];
  const loopback = { DYN_EVENT_PLANE: 'zmq', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_TCP_RPC_HOST: '127.0.0.1' };
  return spawnStator(['worker', ...flags], {
    env: { ...discoveryEnvironment(), ...loopback },
  });
}

describe.runIf(hasLambdaRuntime() && hasDynamoDb())('a stream of the deployed HTTP function', () => {
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'stator-function-'));
    await bundleFunction({ outdir: directory });
    server = await startDynamoDb();
    table = await createTestTable(server.url);
    const keysTable = `${table.tableName}-keys`;
    await createTable({ tableName: keysTable, endpoint: server.url });
    [bearer, stranger] = [await makeKey(keysTable), await makeKey(keysTable)];
    const keys = { STATOR_AUTH: 'on', STATOR_KEYS_TABLE: keysTable };
    const env = {
      ...discoveryEnvironment(),
      ...keys,
      DYN_REQUEST_PLANE: 'tcp',
      DYN_ROUTER_MODE: 'round-robin',
      ...SHARED,
    };
    runtime = await startLambdaRuntime({ directory, env, environmentsMax: 2 });
    worker = startMockWorker();
    await worker.waitForOutput(/worker is ready/);
  });

  afterAll(async () => {
    await worker.kill();
    await runtime.stop();
    await table.drop();
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  it('is cancelled through another instance, since its own serves nothing beside it', async () => {
    const isServed = async (): Promise<boolean> =>
      (await fetch(`${runtime.url}/v1/models/${MODEL}`, { headers: bearer })).ok;
    await waitUntil(isServed, { what: 'the model' });
    await runtime.idle();
    const body = { model: MODEL, max_tokens: 3500, ignore_eos: true, stream: true };
    const chat = { ...body, messages: [{ role: 'user', content: 'What are you?' }] };
    expect((await postJson(`${runtime.url}/v1/chat/completions`, chat)).status).toBe(401);
    await runtime.idle();
    const response = await postJson(`${runtime.url}/v1/chat/completions`, chat, { headers: bearer });
    const data = sseData(response);
    const { value } = await data.next();
    const { id } = JSON.parse(String(value)) as { readonly id: string };
    /** The second of two instances may still be at its last request. */
    const cancel = async (headers: Readonly<Record<string, string>>): Promise<Response> => {
      let response: Response | undefined;
      await waitUntil(
        async () => {
          response = await postJson(`${runtime.url}/v1/cancel/${id}`, {}, { headers });
          return response.status !== 429;
        },
        { what: 'an instance that is free' },
      );
      return response!;
    };
    expect((await cancel(stranger)).status).toBe(404);
    const cancelled = await cancel(bearer);
    expect([cancelled.status, await cancelled.json()]).toMatchObject([200, { cancelled: true }]);
    const rest: string[] = [];
    for await (const text of data) rest.push(text);
    expect(rest.at(-1)).toBe('[DONE]');
    expect(JSON.parse(rest.at(-2) ?? '')).toMatchObject({ error: { code: 'client_closed_request' } });
    expect(runtime.stats).toMatchObject({ coldStarts: 2, crashes: 0 });
  });
});
