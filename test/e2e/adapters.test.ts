import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const ADAPTER = { lora_name: 'tuned', source: { uri: 'file:///adapters/tuned' } };
const CHAT = { model: 'tuned', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 };

/** Behaviour 37 of runtime-and-workers.md, section 11. */
describe('an adapter whose workers are replaced', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '1', DYN_INHIBITED_DURATION_SECS: '0.5', DYN_LORA_ENABLED: 'true' });
  let frontend: StatorProcess;

  beforeAll(async () => {
    frontend = await fleet.frontend();
  });

  async function loaded(): Promise<StatorProcess> {
    const worker = await fleet.worker();
    expect((await postJson(`${worker.url}/v1/loras`, ADAPTER)).status).toBe(200);
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
    await waitUntil(async () => (await ask()).status === 404, { timeoutMs: 10_000, what: 'the adapter to be missing' });
    expect(await (await ask()).json()).toMatchObject({ error: { code: 'model_not_found', param: 'model' } });
    const models = (await (await fetch(`${frontend.url}/v1/models`)).json()) as { data: readonly { id: string }[] };
    expect(models.data.map(({ id }) => id)).toEqual(['stator-mini']);
    expect((await postJson(`${fresh.url}/v1/loras`, ADAPTER)).status).toBe(200);
    await fleet.untilWorkers(frontend, 1, 'tuned');
    expect(await (await ask()).json()).toMatchObject({ model: 'tuned', choices: [{ finish_reason: 'length' }] });
  });
});
