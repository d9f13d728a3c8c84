import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askAbout, postJson, runStator, type StatorProcess, untilHeld, useFleet, waitUntil } from '../support/index.ts';
import { type S3Server, startS3Server } from '../support/s3-server.ts';

const ADAPTER = { lora_name: 'tuned', source: { uri: 'file:///adapters/tuned' } };
const CHAT = { model: 'tuned', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 };

/** An adapter is a model of its own. */
describe('an adapter whose workers are replaced', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '3', DYN_INHIBITED_DURATION_SECS: '0.5', DYN_LORA_ENABLED: 'true' });
  let frontend: StatorProcess;

  beforeAll(async () => {
    frontend = await fleet.frontend();
  });

  async function loaded(): Promise<StatorProcess> {
    const worker = await fleet.worker();
    expect((await postJson(`${worker.controlUrl}/v1/loras`, ADAPTER)).status).toBe(200);
    return worker;
  }

  const ask = (): Promise<Response> => postJson(`${frontend.url}/v1/chat/completions`, CHAT);

  it('survives with the worker that is left, is reported missing without one, and is back with the next', async () => {
    const [first, second] = [await loaded(), await loaded()];
    await fleet.untilWorkers(frontend, 2, 'tuned');
    expect((await ask()).status).toBe(200);
    await first.kill();
    for (let at = 0; at < 4; at++) expect((await ask()).status).toBe(200);
    const fresh = await fleet.worker(); // serves the base model alone
    await second.kill();
    const listed = async (): Promise<readonly string[]> => {
      const models = (await (await fetch(`${frontend.url}/v1/models`)).json()) as { data: readonly { id: string }[] };
      return models.data.map(({ id }) => id);
    };
    await waitUntil(async () => !(await listed()).includes('tuned'), {
      timeoutMs: 10_000,
      what: 'the adapter to be missing',
    });
    expect(await listed()).toEqual(['stator-mini']);
    // Card and instance of a lease leave one after the other: in between the adapter looks as if it had been unloaded.
    await waitUntil(async () => (await ask()).status !== 404, { timeoutMs: 10_000, what: 'the worker to be missing' });
    const missing = await ask();
    expect([missing.status, missing.headers.get('retry-after')]).toEqual([503, '5']); // its worker may come back
    expect(await missing.json()).toMatchObject({ error: { code: 'service_unavailable', param: 'model' } });
    expect((await postJson(`${fresh.controlUrl}/v1/loras`, ADAPTER)).status).toBe(200);
    await fleet.untilWorkers(frontend, 1, 'tuned');
    expect(await (await ask()).json()).toMatchObject({ model: 'tuned', choices: [{ finish_reason: 'length' }] });
  });
});

describe('an adapter in a bucket', () => {
  const fleet = useFleet({ DYN_LORA_ENABLED: 'true' });
  let bucket: S3Server;

  beforeAll(async () => {
    bucket = await startS3Server();
    bucket.objects.set('models/tuned/adapter_config.json', Buffer.from('{}'));
    bucket.objects.set('models/tuned/adapter_model.safetensors', Buffer.from('weights'));
  });
  afterAll(() => bucket.stop());

  it('is fetched into the folder of adapters and served', async () => {
    const folder = join(fleet.temporary, 'adapters');
    const keys = { AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: 'secret' };
    const place = { DYN_LORA_PATH: folder, AWS_ENDPOINT: bucket.url, AWS_ALLOW_HTTP: 'true' };
    const [frontend, worker] = [await fleet.frontend(), await fleet.worker([], { ...keys, ...place })];
    const load = (uri: string) => postJson(`${worker.controlUrl}/v1/loras`, { lora_name: 'tuned', source: { uri } });
    const missing = await load('s3://models/none');
    expect([missing.status, await missing.json()]).toEqual([
      404,
      { status: 'error', message: 'no adapter_config.json under s3://models/none' },
    ]);
    expect((await load('s3://models/tuned')).status).toBe(200);
    const [entry = ''] = readdirSync(folder);
    expect(readdirSync(join(folder, entry)).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    await fleet.untilWorkers(frontend, 1, 'tuned');
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, CHAT);
    expect(await answer.json()).toMatchObject({ model: 'tuned', choices: [{ finish_reason: 'length' }] });
  });

  it('is not asked for over plain HTTP unless that is permitted', async () => {
    const env = { DYN_LORA_ENABLED: 'true', AWS_ENDPOINT: bucket.url };
    expect(await runStator(['worker', '--engine=mocker'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('AWS_ENDPOINT is plain HTTP: set AWS_ALLOW_HTTP=true to permit that'),
    });
  });
});

describe('adapters in mode kv', () => {
  const fleet = useFleet({ DYN_LORA_ENABLED: 'true' });
  let frontend: StatorProcess;
  let workers: readonly StatorProcess[];

  beforeAll(async () => {
    const small = ['--block-size=16', '--speedup-ratio=50'];
    const started = await Promise.all([fleet.frontend(['--router-mode=kv']), fleet.worker(small), fleet.worker(small)]);
    frontend = started[0];
    workers = [started[1], started[2]];
    for (const { controlUrl } of workers) expect((await postJson(`${controlUrl}/v1/loras`, ADAPTER)).status).toBe(200);
    await fleet.untilWorkers(frontend, 2, 'tuned');
  });

  it('are found again where their prompts are cached, and so is the base model beside them', async () => {
    let [found, asked] = [0, 0];
    for (const model of ['tuned', 'stator-mini']) {
      for (let topic = 0; topic < 12; topic++) {
        const first = await askAbout(frontend, `topic ${topic}`, 40, model);
        expect(first.cached).toBe(0); // what the other model has cached of the same words is none of its own
        expect(await untilHeld(frontend, `topic ${topic}`, 40, model)).toEqual([first.worker]);
        const again = await askAbout(frontend, `topic ${topic}`, 40, model);
        asked++;
        if (again.worker === first.worker && again.cached > again.prompt - 32) found++;
      }
    }
    expect([found, asked]).toEqual([24, 24]);
  });

  it('leave what is known of the base model when they are unloaded', async () => {
    const { worker } = await askAbout(frontend, 'before', 40);
    expect(await untilHeld(frontend, 'before', 40)).toEqual([worker]);
    for (const { controlUrl } of workers) await fetch(`${controlUrl}/v1/loras/tuned`, { method: 'DELETE' });
    await waitUntil(async () => (await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).status === 404, {
      what: 'the adapter to be unloaded',
    });
    const after = await askAbout(frontend, 'after', 40);
    expect(await untilHeld(frontend, 'after', 40)).toEqual([after.worker]);
    expect(await untilHeld(frontend, 'before', 40)).toEqual([worker]);
  });
});
