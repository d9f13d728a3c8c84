import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { freePort, isRunning, openChat, readChat, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const FAKE = fileURLToPath(new URL('../shared/engines/server/fake-engine.mjs', import.meta.url));
const MODEL_FOLDER = fileURLToPath(new URL('../../shared/artifacts/builtin-model', import.meta.url));
const CHAT = { model: 'served', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 };

const ENGINE = ['--engine=vllm', `--engine-command=${process.execPath} ${FAKE}`, `--model=${MODEL_FOLDER}`];

const FILE = ['--discovery-backend=file'];
const HERE = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', STATOR_CONTROL_HOST: '127.0.0.1' };

describe('a worker that starts its engine', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '2' });
  let frontend: StatorProcess;

  beforeAll(async () => {
    frontend = await fleet.frontend();
  });

  const start = async (env: Record<string, string> = {}): Promise<StatorProcess> => {
    const worker = await fleet.worker([...ENGINE, '--served-model-name=served'], env);
    await fleet.untilWorkers(frontend, 1, 'served');
    return worker;
  };
  const helperOf = async (worker: StatorProcess): Promise<number> =>
    Number((await worker.waitForOutput(/helper (\d+)/))[1]);

  it('serves clients with its tokens, shows its metrics, and takes it along when told to stop', async () => {
    const worker = await start();
    const helper = await helperOf(worker);
    expect(await readChat(frontend.url, CHAT)).toMatchObject({ finishReason: 'length', isDone: true });
    await waitUntil(async () =>
      (await (await fetch(`${worker.url}/metrics`)).text()).includes('vllm:num_requests_running'),
    );
    const text = await (await fetch(`${worker.url}/metrics`)).text();
    expect(text).toMatch(/vllm:num_requests_running\{engine="0",dynamo_namespace="dynamo",dynamo_component="backend"/);
    worker.signal('SIGTERM');
    expect(await worker.exited).toBe(0);
    await waitUntil(() => !isRunning(helper));
    await fleet.untilWorkers(frontend, 0, 'served');
  });

  it('ends with a failure, out of discovery, when its engine dies in the middle of a stream', async () => {
    const worker = await start({ FAKE_HANGS: '1' });
    const helper = await helperOf(worker);
    const [, port] = await worker.waitForOutput(/--port (\d+)/);
    const stream = await openChat(frontend.url, { ...CHAT, max_tokens: 9 });
    await fetch(`http://127.0.0.1:${port}/die`).catch(() => undefined); // dies instead of answering
    expect(await worker.exited).toBe(1);
    expect(worker.stderr() + worker.stdout()).toMatch(/engine is down.*ended with 3/);
    await fleet.untilWorkers(frontend, 0, 'served');
    await waitUntil(() => !isRunning(helper));
    stream.leave();
  });

  it('leaves nothing of its engine behind when it is killed itself', async () => {
    const worker = await start();
    const helper = await helperOf(worker);
    await worker.kill();
    await waitUntil(() => !isRunning(helper));
    await fleet.untilWorkers(frontend, 0, 'served');
  });

  it('lives beside three others that start with it, whose engines listen long after they were told where', async () => {
    const env = { ...HERE, DYN_FILE_KV: fleet.fileKv, FAKE_LOAD_MS: '1500', VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1' };
    const nixl = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}';
    const workers = [1, 2, 3, 4].map(() =>
      fleet.spawn(['worker', ...ENGINE, ...FILE, '--served-model-name=four', nixl], env),
    );
    await fleet.untilWorkers(frontend, 4, 'four');
    const said = workers.map((worker) => worker.stdout() + worker.stderr());
    expect(said.join('')).not.toMatch(/Address already in use|EADDRINUSE/);
    const endpoints = said.flatMap((text) => [...new Set(text.match(/tcp:\/\/127\.0\.0\.1:\d+/g))]);
    expect(endpoints).toHaveLength(8);
    expect(new Set(endpoints).size).toBe(8);
    for (const worker of workers) worker.signal('SIGTERM');
    for (const worker of workers) expect(await worker.exited).toBe(0);
  });

  it.each([
    ['DYN_VLLM_KV_EVENT_PORT', {}],
    ['VLLM_NIXL_SIDE_CHANNEL_PORT', { VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1' }],
    ['DYN_SYSTEM_PORT', { DYN_SYSTEM_HOST: '127.0.0.1' }],
    ['STATOR_CONTROL_PORT', {}],
    ['DYN_TCP_RPC_PORT', {}],
  ])('does not start it at the port of %s if another process listens there', async (setting, env) => {
    const port = await freePort();
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    const nixl = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}';
    const child = fleet.spawn(['worker', ...ENGINE, ...FILE, nixl], { ...HERE, ...env, [setting]: `${port}` });
    expect(await child.exited).toBe(1);
    server.close();
    expect(child.stderr()).toMatch(new RegExp(`${setting}`));
    expect(child.stderr()).toContain(`${port}`);
    expect(child.stdout() + child.stderr()).not.toContain('starting the engine');
  });

  it('says why it cannot start', async () => {
    const child = fleet.spawn(['worker', ...ENGINE], { FAKE_DIES: 'early' });
    expect(await child.exited).toBe(1);
    expect(child.stderr()).toMatch(/ended with 1: .*ValueError: no room on the device/);
  });
});
