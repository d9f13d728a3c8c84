import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SYSTEM, seededRandom, systemClock } from '../../../../shared/clock/index.ts';
import { Lifetime } from '../../../../shared/concurrency/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { MemoryDiscovery } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { composeFrontend, serveFrontend } from '../../../../shared/frontends/index.ts';
import { wantedNamespace } from '../../../../shared/frontends/process/planned-models.ts';
import type { PlannerEventOf } from '../../../../shared/protocol/index.ts';
import { captureLogger, silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { postJson, waitUntil } from '../../../support/index.ts';

const MODEL = 'Planned/Model-1';
const PLANNED = `--planned-models=prod#${MODEL}`;
const HOLD = '--hold-timeout=30';

let folder: string;
let env: Readonly<Record<string, string>>;
let lifetime: Lifetime;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-planned-'));
  const loopback = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
  env = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), ...loopback };
  lifetime = new Lifetime();
});
afterEach(async () => {
  await lifetime.close();
  rmSync(folder, { recursive: true, force: true });
});

async function openFrontend(...flags: readonly string[]) {
  const told: PlannerEventOf<'request.held'>[] = [];
  const { logger, lines } = captureLogger();
  const { settings } = resolveConfig('frontend', ['--http-port=0', '--http-host=127.0.0.1', ...flags], env);
  const frontend = await composeFrontend(settings, { ...SYSTEM, logger, onHeld: (event) => told.push(event) });
  const { url } = await lifetime.use(serveFrontend(frontend, settings, logger), (server) => server.drain());
  const chat = (model = MODEL) =>
    postJson(`${url}/v1/chat/completions`, { model, max_tokens: 4, messages: [{ role: 'user', content: 'Hi' }] });
  return { url, told, lines, chat };
}

async function startWorker(): Promise<void> {
  const flags = ['--engine=mocker', '--speedup-ratio=100', `--model-name=${MODEL}`];
  const config = resolveConfig('worker', flags, { ...env, DYN_NAMESPACE: 'prod' });
  const starting = startWorkerProcess(config, SYSTEM, silentLogger, AbortSignal.timeout(20_000));
  await lifetime.use(starting, (worker) => worker.drain());
}

/** Returns the status, code, message and `Retry-After` of an answer. */
async function refusalOf(answering: Promise<Response>) {
  const response = await answering;
  const { error } = (await response.json()) as { error: { readonly code: string; readonly message: string } };
  const { code, message } = error;
  return { status: response.status, code, message, retryAfter: response.headers.get('retry-after') };
}

describe('the first request for a planned model', () => {
  it('waits, asks the planner of its namespace, and is answered by the first worker', async () => {
    const { url, told, chat } = await openFrontend(PLANNED, HOLD);
    const asked = chat();
    await waitUntil(() => told.length > 0, { what: 'the planner to be asked' });
    expect(told[0]).toMatchObject({ namespace: 'prod', model: MODEL, held_count: 1 });
    expect(await refusalOf(chat('nobody'))).toMatchObject({ status: 404, code: 'model_not_found' });
    await startWorker();
    const response = await asked;
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ model: MODEL, choices: [{ finish_reason: 'length' }] });
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: MODEL }] });
  });

  it('is 503 with Retry-After without a hold, and other names stay 404', async () => {
    const { told, chat } = await openFrontend(PLANNED);
    expect(await refusalOf(chat())).toMatchObject({ status: 503, code: 'service_unavailable', retryAfter: '5' });
    expect(await refusalOf(chat('nobody'))).toMatchObject({ status: 404, code: 'model_not_found', retryAfter: null });
    expect(told).toEqual([]);
  });

  it('is 404 once the first worker shows that the model takes no such requests', async () => {
    const { url, told } = await openFrontend(PLANNED, HOLD);
    const asked = postJson(`${url}/v1/embeddings`, { model: MODEL, input: ['one', 'two'] });
    await waitUntil(() => told.length > 0, { what: 'the planner to be asked' });
    await startWorker();
    expect(await refusalOf(asked)).toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it('is 503 if it was read as one in tokens, and the first worker takes the body itself', async () => {
    env = { DYN_DISCOVERY_BACKEND: 'mem' };
    const worker = lifetime.use(new MemoryDiscovery({ clock: systemClock, random: seededRandom(3) }));
    const { url, told } = await openFrontend(PLANNED, HOLD);
    const asked = postJson(`${url}/v1/embeddings`, { model: MODEL, input: ['one', 'two'] });
    await waitUntil(() => told.length > 0, { what: 'the planner to be asked' });
    const at = 'prod/backend/generate/1';
    const { card, ...record } = modelAt(at);
    await worker.put(endpointAt(at));
    const kind = { model_type: ['Embedding'], model_input: 'Text' } as const;
    await worker.put({ ...record, card: { ...card, display_name: MODEL, ...kind } });
    expect(await refusalOf(asked)).toMatchObject({ status: 503, message: expect.stringContaining('not ready') });
  });

  it('is 404 at a frontend that does not serve its namespace, whose log says so', async () => {
    const { lines, chat } = await openFrontend(`${PLANNED},dynamo#other`, HOLD, '--namespace=dynamo');
    expect(await refusalOf(chat())).toMatchObject({ status: 404 });
    const warned = lines.filter(({ message }) => message?.includes('not served here'));
    expect(warned).toMatchObject([{ fields: { model: MODEL, namespace: 'prod' } }]);
  });
});

describe('a planned model without workers', () => {
  it('is not listed, as one whose workers have left, and is known to be not ready', async () => {
    const { url } = await openFrontend(PLANNED, HOLD);
    expect(await (await fetch(`${url}/v1/models`)).json()).toEqual({ object: 'list', data: [] });
    expect((await fetch(`${url}/v1/models/${MODEL}`)).status).toBe(503);
    const ready = await fetch(`${url}/v1/models/${MODEL}/ready`);
    expect([ready.status, await ready.json()]).toMatchObject([503, { model: MODEL, ready: false }]);
  });

  it('cannot tokenize yet, and estimates how many tokens a message has', async () => {
    const { url, lines } = await openFrontend(PLANNED, HOLD, '--enable-anthropic-api');
    const tokenized = postJson(`${url}/tokenize`, { model: MODEL, prompt: 'Hi' });
    expect(await refusalOf(tokenized)).toMatchObject({ status: 503, code: 'service_unavailable' });
    const echoed = postJson(`${url}/v1/completions`, { model: MODEL, prompt: [1, 2], max_tokens: 1, echo: true });
    expect(await refusalOf(echoed)).toMatchObject({ status: 503, code: 'service_unavailable' });
    const messages = [{ role: 'user', content: 'What are you?' }];
    const counted = await postJson(`${url}/v1/messages/count_tokens`, { model: MODEL, messages });
    expect([counted.status, await counted.json()]).toEqual([200, { input_tokens: expect.any(Number) }]);
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]); // nothing tried to load it
  });
});

describe('the namespace that is asked for workers', () => {
  const of = (known: string, ...planned: readonly string[]) =>
    wantedNamespace(resolveConfig('frontend', [`--planned-models=${planned.join(',')}`], {}).settings, 'm', known);

  it.each([
    ['that of the last workers if it is planned', of('two', 'one#m', 'two#m'), 'two'],
    ['the first planned one if that of the last workers is not', of('old', 'one#m', 'two#m'), 'one'],
    ['that of the last workers if only other models are planned', of('old', 'one#n'), 'old'],
    ['that of the process for a name alone', of('old', 'm'), 'dynamo'],
  ])('is %s', (_case, namespace, expected) => {
    expect(namespace).toBe(expected);
  });
});
