import { describe, expect, it } from 'vitest';
import { postJson, useFleet, waitUntil } from '../support/index.ts';

const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
const MODEL = 'stator-mini';
const START_MS_MAX = 20_000;

describe('--router-min-initial-workers', () => {
  const fleet = useFleet({ DYN_DISCOVERY_BACKEND: 'file' });
  const shared = () => ({ ...LOOPBACK, DYN_FILE_KV: fleet.fileKv });

  it('keeps a frontend alive, not ready and refusing until that many workers exist', async () => {
    const flags = ['--http-host=127.0.0.1', '--http-port=0', '--router-mode=kv', '--router-min-initial-workers=2'];
    const child = fleet.spawn(['frontend', ...flags], shared());
    const [, url = ''] = await child.waitForOutput(/serving url=(\S+)/, START_MS_MAX);
    const health = async (): Promise<unknown> => (await fetch(`${url}/health`)).json();
    const ask = () =>
      postJson(`${url}/v1/chat/completions`, { model: MODEL, messages: [{ role: 'user', content: 'hi' }] });
    const message = (present: number) => `Waiting for workers: ${present} of 2 exist`;
    expect(await health()).toEqual({ status: 'not_ready', stage: 'waiting', message: message(0) });
    expect((await fetch(`${url}/live`)).status).toBe(200);
    await fleet.worker();
    await waitUntil(async () => ((await health()) as { message?: string }).message === message(1));
    expect((await ask()).status).toBe(503);
    expect(await (await fetch(`${url}/v1/models/${MODEL}/ready`)).json()).toMatchObject({
      ready: false,
      reason: message(1),
    });
    const second = await fleet.worker();
    await waitUntil(async () => (await fetch(`${url}/health`)).status === 200);
    expect((await ask()).status).toBe(200);
    await second.kill(); // what was waited for once is not waited for again
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it('keeps a standalone router out of discovery, and lets it stop while it waits', async () => {
    const flags = ['--endpoint=dynamo.backend.generate', '--router-min-initial-workers=64', '--block-size=16'];
    const child = fleet.spawn(['router', ...flags], shared());
    await child.waitForOutput(/waiting for workers/, START_MS_MAX);
    child.signal('SIGTERM');
    expect(await child.exited).toBe(0);
  });
});
