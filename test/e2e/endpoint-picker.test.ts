import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askAbout, freePort, postJson, type StatorProcess, untilHeld, useFleet, waitUntil } from '../support/index.ts';
import { PlayedEnvoy } from '../support/picker/played-envoy.ts';
import { ENVOY_PYTHON, type RealEnvoy, startEnvoy } from '../support/picker/real-envoy.ts';

/** Addresses of two pods, each with a worker and a frontend beside it. */
const PODS = ['127.0.0.1', '127.0.0.2'] as const;

const fleet = useFleet();
let target: number;
let picker: StatorProcess;
let pickerPort: number;
let openPort: number;
let openPicker: StatorProcess;
const workers: StatorProcess[] = [];

beforeAll(async () => {
  [target, pickerPort, openPort] = [await freePort(), await freePort(), await freePort()];
  for (const host of PODS) workers.push(await fleet.worker([], { DYN_TCP_RPC_HOST: host }));
  const shared = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: fleet.fileKv };
  for (const host of PODS) {
    const args = [
      'frontend',
      '--router-mode=direct',
      '--enable-anthropic-api',
      `--http-host=${host}`,
      `--http-port=${target}`,
    ];
    await fleet.spawn(args, shared).waitForOutput(/serving url=/, 60_000);
  }
  const args = [`--endpoint-picker-target-port=${target}`, '--router-mode=kv', '--enable-anthropic-api'];
  picker = await fleet.frontend([...args, `--endpoint-picker-port=${pickerPort}`]);
  openPicker = await fleet.frontend([
    ...args,
    `--endpoint-picker-port=${openPort}`,
    '--endpoint-picker-secure-serving=false',
  ]);
  for (const each of [picker, openPicker]) await fleet.untilWorkers(each, 2);
}, 180_000);

const STORY = 'The river runs down to the sea, and nobody asks it why. '.repeat(40);

function chatOf(text: string, more: object = {}) {
  return { model: 'stator-mini', max_tokens: 8, messages: [{ role: 'user', content: text }], ...more };
}

describe('an endpoint picker before two workers', () => {
  let envoy: PlayedEnvoy;
  beforeAll(() => {
    envoy = new PlayedEnvoy(`127.0.0.1:${openPort}`);
  });
  afterAll(() => envoy.close());

  it('spreads requests under way over endpoints that serve HTTP', async () => {
    const streams = Array.from({ length: 8 }, () => envoy.open());
    const headers = { 'content-type': 'application/json' };
    const picked = new Set<string | undefined>();
    for (const [at, stream] of streams.entries()) {
      const body = JSON.stringify(chatOf(`${at} ${STORY}`));
      const routed = await stream.request({ path: '/v1/chat/completions', headers, body });
      picked.add(routed.headers['x-gateway-destination-endpoint']);
      stream.send({ request: { case: 'responseHeaders', value: {} } });
      await stream.next();
      await stream.respondPart('data: {}\n\n', false);
    }
    expect([...picked].sort()).toEqual(PODS.map((host) => `${host}:${target}`));
    for (const stream of streams) stream.cancel();
    const open = () => openPicker.metric('stator_endpoint_picker_streams');
    await waitUntil(async () => (await open()) === 0, { what: 'no open request' });
    for (const endpoint of picked) expect((await fetch(`http://${endpoint}/live`)).status).toBe(200);
  });
});

/** Modes of an Envoy, and whether it reaches the picker over TLS. */
const ENVOYS = [
  ['FULL_DUPLEX_STREAMED', 'FULL_DUPLEX_STREAMED', true],
  ['FULL_DUPLEX_STREAMED', 'STREAMED', false],
  ['BUFFERED', 'STREAMED', true],
] as const;

describe.skipIf(ENVOY_PYTHON === '').each(ENVOYS)('a real Envoy in mode %s, with responses %s, TLS %s', (...modes) => {
  const [requestMode, responseMode, isSecure] = modes;
  let envoy: RealEnvoy;
  let asked: StatorProcess;
  beforeAll(async () => {
    asked = isSecure ? picker : openPicker;
    envoy = await startEnvoy({ pickerPort: isSecure ? pickerPort : openPort, isSecure, requestMode, responseMode });
  }, 90_000);
  afterAll(() => envoy?.close());

  const ask = (body: object, path = '/v1/chat/completions') => postJson(`${envoy.url}${path}`, body);

  it('gets whole and streamed answers, of both dialects', async () => {
    const whole = (await (await ask(chatOf('hi'))).json()) as {
      readonly usage: { readonly completion_tokens: number };
    };
    expect(whole.usage.completion_tokens).toBe(8);
    const streamed = await ask(chatOf(STORY, { stream: true }));
    expect(streamed.headers.get('content-type')).toContain('text/event-stream');
    expect(await streamed.text()).toMatch(/data: \[DONE\]\n\n$/);
    const messages = await ask(chatOf('hi'), '/v1/messages');
    expect(await messages.json()).toMatchObject({ type: 'message', usage: { output_tokens: 8 } });
  });

  it('gets large bodies through', async () => {
    const response = await ask(chatOf('word '.repeat(20_000), { max_tokens: 1 }));
    const { usage } = (await response.json()) as { readonly usage: { readonly prompt_tokens: number } };
    expect(usage.prompt_tokens).toBeGreaterThan(20_000);
  });

  it('sends a prompt to the worker that holds its beginning', async () => {
    const gateway = { ...asked, url: envoy.url };
    const first = await askAbout(gateway, modes.join(), 60);
    await untilHeld(asked, modes.join(), 60);
    for (let turn = 0; turn < 3; turn++) {
      const next = await askAbout(gateway, modes.join(), 60);
      expect(next.worker).toBe(first.worker);
      expect(next.cached).toBeGreaterThan(next.prompt / 2);
    }
  });

  it('hands errors of the picker to its client', async () => {
    const unknown = await ask({ ...chatOf('hi'), model: 'other' });
    expect(unknown.status).toBe(404);
    expect(unknown.headers.get('content-type')).toContain('application/json');
    expect(await unknown.json()).toMatchObject({ error: { code: 'model_not_found' } });
    const invalid = await ask({ model: 'stator-mini' }, '/v1/messages');
    expect([invalid.status, await invalid.json()]).toMatchObject([400, { type: 'error' }]);
  });

  it('lists the models of any endpoint', async () => {
    const response = await fetch(`${envoy.url}/v1/models`);
    expect(await response.json()).toMatchObject({ data: [{ id: 'stator-mini' }] });
  });

  it('frees the worker of a client that leaves in the middle of its answer', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${envoy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(chatOf('hi', { stream: true, max_tokens: 400 })),
      signal: leaving.signal,
    });
    await response.body?.getReader().read();
    leaving.abort();
    const open = () => asked.metric('stator_endpoint_picker_streams');
    await waitUntil(async () => (await open()) === 0, { timeoutMs: 30_000, what: 'no open request' });
  });
});

describe('after the loss of a worker', () => {
  it('requests go to the endpoint that is left', async () => {
    await workers[1]?.kill();
    await fleet.untilWorkers(openPicker, 1);
    const envoy = new PlayedEnvoy(`127.0.0.1:${openPort}`);
    const headers = { 'content-type': 'application/json' };
    for (let at = 0; at < 4; at++) {
      const body = JSON.stringify(chatOf(`${at} ${STORY}`));
      const stream = envoy.open();
      const routed = await stream.request({ path: '/v1/chat/completions', headers, body });
      expect(routed.headers['x-gateway-destination-endpoint']).toBe(`${PODS[0]}:${target}`);
      await stream.respond(200, ['{}']);
    }
    envoy.close();
  });
});
