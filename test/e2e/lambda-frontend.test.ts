import { join, resolve } from 'node:path';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { HttpFunctionVariable } from '../../functions/http/environment.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { passSecrets } from '../../shared/fleet/index.ts';
import { captureLogger } from '../../shared/telemetry/log/logger.ts';
import { createTestTable, type TestTable } from '../contract/discovery/test-table.ts';
import { type SpawnedProcess, waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

const MIB = 1024 * 1024;
/** A path that each process understands in its own way: the function has no model there, and fetches it from its worker. */
const ELSEWHERE = '/proc/self/cwd/builtin-model';
/** The function asks the table anew for what it has known for longer. */
const KNOWN_MS_MAX = 1000;
/**
 * The table shows a worker at most so long after it is ready. A process gathers each second for those that read, but on
 * a busy machine later. The function is frozen meanwhile.
 */
const SHOWN_MS_MAX = 6000;

let bed: FunctionBed;
/** Has the same keys. */
let responsesTable: TestTable;
let runtime: LambdaRuntime;

/** What the serving stack sets, and where the table is. */
function functionEnvironment(): Record<HttpFunctionVariable | 'STATOR_DYNAMODB_ENDPOINT', string> &
  Record<string, string> {
  return {
    STATOR_ARTIFACTS_CACHE_DIR: join(bed.bundle.directory, 'models'), // a function has /tmp of its own
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: bed.table.tableName,
    STATOR_AUTH: 'off', // lambda-cancel.test.ts has keys
    STATOR_KEYS_TABLE: 'read-where-keys-are-asked-for-only',
    STATOR_KEY_CACHE_SECS: '60',
    STATOR_METRICS_AUTH: 'false',
    STATOR_DOCS_AUTH: 'false',
    STATOR_ARTIFACTS_BUCKET: 'read-where-no-worker-has-the-files',
    STATOR_SECRETS_TABLE: responsesTable.tableName,
    STATOR_RESPONSES_TABLE: responsesTable.tableName,
    DYN_REQUEST_PLANE: 'tcp',
    DYN_ROUTER_MODE: 'round-robin',
    DYN_ENABLE_ANTHROPIC_API: 'true',
    DYN_HTTP_BODY_LIMIT_MB: '6',
    DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS: '10000',
    STATOR_DEADLINE_MARGIN_SECS: '10',
    DYN_LOG: 'info',
    DYN_LOGGING_JSONL: 'true',
    STATOR_DYNAMODB_ENDPOINT: bed.table.endpoint,
  };
}

/** Of the edge that passes its secrets to the function. */
function edgeSettings() {
  const secrets = { STATOR_ID_SECRET: 'a-secret-that-all-instances-are-given' };
  const place = { STATOR_SECRETS_TABLE: responsesTable.tableName, STATOR_DYNAMODB_ENDPOINT: bed.table.endpoint };
  return resolveConfig('frontend', [], { ...secrets, ...place }).settings;
}

function startMockWorker(): Promise<SpawnedProcess> {
  return bed.startWorker({ modelPath: ELSEWHERE, cwd: resolve('shared/artifacts') });
}

function post(body: unknown): Promise<Response> {
  return fetch(`${runtime.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

describe.runIf(hasFunctionBed())('the deployed HTTP function', () => {
  beforeAll(async () => {
    bed = await FunctionBed.open();
    responsesTable = await createTestTable(bed.server.url);
    await passSecrets(edgeSettings(), captureLogger().logger)?.ended;
    runtime = await bed.startFunction(functionEnvironment());
  });

  afterEach(() => runtime.idle());

  afterAll(async () => {
    await runtime.stop();
    await responsesTable.drop();
    await bed.close();
  });

  it('keeps what a cold start parses small, without native code', () => {
    expect(bed.bundle.initBytes).toBeLessThan(0.82 * MIB); // 0.81 MiB; naming `z` in an import of zod alone would add 0.2
  });

  it('answers 503 while its table is unreachable, and serves in the same environment after that', async () => {
    bed.table.proxy.cut();
    const away = await fetch(`${runtime.url}/v1/models`);
    expect(away.status).toBe(503);
    expect(await away.json()).toMatchObject({ error: { code: 'service_unavailable' } });
    bed.table.proxy.restore();
    await runtime.idle();
    const back = await waitUntil(async () => {
      const response = await fetch(`${runtime.url}/v1/models`); // 503 while it has just started and knows no model
      await runtime.idle();
      return response.status !== 503 && response;
    });
    expect([back.status, await back.json()]).toEqual([200, { object: 'list', data: [] }]);
    expect(runtime.stats.coldStarts).toBe(1);
  });

  it('answers health, liveness and errors as the container does', async () => {
    expect((await fetch(`${runtime.url}/live`)).status).toBe(200);
    await runtime.idle();
    expect(await (await fetch(`${runtime.url}/health`)).json()).toMatchObject({ status: 'healthy' });
    await runtime.idle();
    const unknown = await post({ model: 'none', messages: [{ role: 'user', content: 'hi' }] });
    expect([unknown.status, await unknown.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }]);
    await runtime.idle();
    expect((await fetch(`${runtime.url}/nowhere`)).status).toBe(404);
  });

  it('writes JSON log lines and no warning but that no keys are asked for', () => {
    const lines = runtime
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{') && !line.includes('STATOR_AUTH=off'));
    for (const line of lines) expect(line).not.toMatch(/"level":"WARN"/);
  });

  it('streams a chat from a worker that registered after it had started, and goes on from a stored response', async () => {
    const worker = await startMockWorker();
    const client = new OpenAI({ baseURL: `${runtime.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const request = { model: MODEL, max_tokens: 16, messages: [{ role: 'user' as const, content: 'What are you?' }] };
    await waitUntil(async () => (await client.models.list()).data.length > 0, { what: 'the model in the list' });
    await runtime.idle();
    let text = '';
    let chunks = 0;
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
      chunks++;
    }
    await runtime.idle();
    const unary = await client.chat.completions.create(request);
    expect(chunks).toBeGreaterThan(16);
    expect(unary.choices[0]?.message.content).toBe(text);
    expect(unary.usage?.completion_tokens).toBe(16);
    await runtime.idle();
    const asked = { model: MODEL, max_output_tokens: 4, input: 'What are you?' };
    const response = await client.responses.create(asked);
    await runtime.idle();
    const next = await client.responses.create({ ...asked, previous_response_id: response.id });
    expect(next.usage?.input_tokens).toBeGreaterThan(response.usage?.input_tokens ?? Number.POSITIVE_INFINITY);
    await worker.kill();
  });

  it('reaches a worker that took the place of another while the environment was frozen, at once', async () => {
    const client = new OpenAI({ baseURL: `${runtime.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const ask = () =>
      client.chat.completions.create({ model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: 'Hi' }] });
    let present = await startMockWorker();
    // The worker of the test before was killed: what it gathered is read until another may.
    const isServed = (): Promise<boolean> => ask().then(Boolean, () => false);
    await waitUntil(isServed, { what: 'the worker to be reached' });
    for (let generation = 0; generation < 2; generation++) {
      await waitUntil(() => runtime.environments()[0]?.isFrozen, { what: 'the environment to be frozen' });
      const frozenAtMs = performance.now();
      present.signal('SIGTERM');
      expect(await present.exited).toBe(0);
      present = await startMockWorker();
      const readyAtMs = performance.now();
      await waitUntil(() => performance.now() - frozenAtMs > KNOWN_MS_MAX, { what: 'what is known to be too old' });
      await waitUntil(() => performance.now() - readyAtMs > SHOWN_MS_MAX, { what: 'the worker to be shown' });
      expect((await ask()).usage?.completion_tokens).toBe(2);
    }
    await present.kill();
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
    expect(runtime.output()).not.toMatch(/"level":"(WARN|ERROR)","target":"discovery"/);
  });
});
