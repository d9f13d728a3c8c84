import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { ENVOY_PYTHON, type RealEnvoy, startEnvoy } from '../support/picker/real-envoy.ts';

/** Number of ranks of the worker. Each has a port of its pod. */
const RANKS = 2;
/** About four seconds at the pace of the mock engine. */
const LONG_TOKENS = 600;
const FULL = 'FULL_DUPLEX_STREAMED';

const fleet = useFleet();
const envoys: RealEnvoy[] = [];
let endpoints: readonly StatorProcess[];
let picker: StatorProcess;
let pickerPort: number;

beforeAll(async () => {
  await fleet.worker([`--data-parallel-size=${RANKS}`], { DYN_TCP_RPC_HOST: '127.0.0.1' });
  const direct = ['--router-mode=direct', '--enable-anthropic-api'];
  endpoints = await Promise.all(Array.from({ length: RANKS }, () => fleet.frontend(direct)));
  [picker, pickerPort] = await startPicker([]);
}, 180_000);

afterAll(async () => {
  await Promise.all(envoys.map((envoy) => envoy.close()));
});

async function startPicker(more: readonly string[]): Promise<[picker: StatorProcess, port: number]> {
  const port = await freePort();
  const ports = endpoints.map(({ url }) => new URL(url).port).join();
  const args = ['--router-mode=kv', '--enable-anthropic-api', `--endpoint-picker-port=${port}`];
  const targets = [`--endpoint-picker-target-port=${ports}`, '--endpoint-picker-secure-serving=false'];
  const started = await fleet.frontend([...args, ...targets, ...more]);
  await fleet.untilWorkers(started, 1);
  return [started, port];
}

type Modes = Pick<Parameters<typeof startEnvoy>[0], 'requestMode' | 'responseMode'>;

async function openEnvoy({ requestMode, responseMode }: Modes, port = pickerPort): Promise<RealEnvoy> {
  const envoy = await startEnvoy({ pickerPort: port, isSecure: false, requestMode, responseMode });
  envoys.push(envoy);
  return envoy;
}

function chatOf(text: string, more: object = {}) {
  return { model: 'stator-mini', max_tokens: 8, messages: [{ role: 'user', content: text }], ...more };
}

const LONG = chatOf('hi', { max_tokens: LONG_TOKENS, ignore_eos: true });

const outcome = (name: string, at = picker): Promise<number> =>
  at.metric('stator_endpoint_picker_requests_total', `outcome="${name}"`);

async function tokensOf(response: Response): Promise<number> {
  const { usage } = (await response.json()) as { readonly usage: { readonly completion_tokens: number } };
  return usage.completion_tokens;
}

describe.skipIf(ENVOY_PYTHON === '')('a real Envoy', () => {
  it('sends requests to the port of the rank that the picker chose', async () => {
    const envoy = await openEnvoy({ requestMode: FULL, responseMode: FULL });
    const asked = Array.from({ length: 8 }, (_, at) =>
      postJson(`${envoy.url}/v1/chat/completions`, chatOf(`${at} `.repeat(200), { max_tokens: 60, ignore_eos: true })),
    );
    for (const response of await Promise.all(asked)) expect(await tokensOf(response)).toBe(60);
    const served = await Promise.all(endpoints.map((each) => each.metric('dynamo_frontend_requests_total')));
    expect(served.reduce((sum, count) => sum + count, 0)).toBe(8);
    expect(Math.min(...served)).toBeGreaterThan(0);
  }, 120_000);

  it('lets the picker free a place without the bodies of answers, whole or streamed', async () => {
    const envoy = await openEnvoy({ requestMode: FULL, responseMode: 'NONE' });
    const url = `${envoy.url}/v1/chat/completions`;
    const before = await outcome('left');
    expect(await tokensOf(await postJson(url, chatOf('hi')))).toBe(8);
    expect(await (await postJson(url, chatOf('hi', { stream: true }))).text()).toMatch(/data: \[DONE\]\n\n$/);
    const open = () => picker.metric('stator_endpoint_picker_streams');
    await waitUntil(async () => (await open()) === 0, { timeoutMs: 30_000, what: 'no open request' });
    expect(await outcome('left')).toBe(before);
  }, 120_000);

  it('gets an answer whole that is silent for longer than the picker waits', async () => {
    const [impatient, port] = await startPicker(['--endpoint-picker-silence-secs=1']);
    const envoy = await openEnvoy({ requestMode: FULL, responseMode: FULL }, port);
    expect(await tokensOf(await postJson(`${envoy.url}/v1/chat/completions`, LONG))).toBe(LONG_TOKENS);
    expect(await outcome('silent', impatient)).toBe(1);
    expect(await impatient.metric('stator_endpoint_picker_streams')).toBe(0);
  }, 120_000);

  it('frees the place of a request that it sends again with the same id', async () => {
    const envoy = await openEnvoy({ requestMode: FULL, responseMode: FULL });
    const send = (tries: number) => {
      const headers = { 'x-request-id': 'again', 'x-envoy-attempt-count': `${tries}` };
      return postJson(`${envoy.url}/v1/chat/completions`, LONG, { headers });
    };
    const sendAll = async (...tries: readonly number[]) => {
      for (const response of await Promise.all(tries.map(send))) expect(await tokensOf(response)).toBe(LONG_TOKENS);
      return picker.metric('stator_endpoint_picker_sent_again_total');
    };
    expect(await sendAll(1, 1)).toBe(0); // as a load test with one id for all
    expect(await sendAll(1, 2)).toBe(1);
  }, 120_000);

  it("hands refusals to clients of Anthropic's API in its form", async () => {
    const envoy = await openEnvoy({ requestMode: 'NONE', responseMode: 'NONE' });
    const refused = await postJson(`${envoy.url}/v1/messages`, chatOf('hi'));
    expect(refused.status).toBe(500);
    expect(await refused.json()).toMatchObject({ type: 'error', error: { type: 'api_error' } });
  }, 120_000);
});
