import { afterAll, describe, expect, it } from 'vitest';
import {
  freePort,
  hasNatsServer,
  type NatsServer,
  readChat,
  startNatsServer,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const CHAT = { model: 'stator-mini', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] };

async function health(
  url: string,
): Promise<{ readonly status: number; readonly body: { readonly away?: readonly string[] } }> {
  const response = await fetch(`${url}/health`);
  return { status: response.status, body: (await response.json()) as { readonly away?: readonly string[] } };
}

describe.runIf(hasNatsServer())('processes whose broker is not there', () => {
  const fleet = useFleet({ DYN_DISCOVERY_BACKEND: 'file', DYN_REQUEST_PLANE: 'nats', DYN_EVENT_PLANE: 'nats' });
  let nats: NatsServer | undefined;
  afterAll(() => nats?.stop());

  it('name it in log and /health, without its credentials, and serve once it is there', async () => {
    nats = await startNatsServer({ isStarted: false });
    const shown = nats.url;
    const secret = shown.replace('//', '//ann:open-sesame@');
    const port = await freePort();
    const away = [expect.stringMatching(`^NATS at ${shown}: connection refused`)];
    const worker = fleet.spawn(['worker', '--engine=mocker'], {
      DYN_FILE_KV: fleet.fileKv,
      NATS_SERVER: secret,
      DYN_SYSTEM_PORT: String(port),
      DYN_SYSTEM_HOST: '127.0.0.1',
    });
    const frontend = await fleet.frontend([], { NATS_SERVER: secret });
    await Promise.all([frontend, worker].map((one) => one.waitForOutput(new RegExp(`NATS is away .*server=${shown}`))));
    expect(await health(frontend.url)).toMatchObject({ status: 200, body: { status: 'healthy', away } });
    await waitUntil(async () => (await health(`http://127.0.0.1:${port}`)).body.away !== undefined);
    expect(await health(`http://127.0.0.1:${port}`)).toMatchObject({ status: 503, body: { status: 'notready', away } });
    await worker.waitForOutput(new RegExp(`waiting for the broker broker="NATS at ${shown}`));
    for (const one of [frontend, worker]) expect(one.stdout() + one.stderr()).not.toContain('open-sesame');

    await nats.restart();
    await fleet.untilWorkers(frontend, 1);
    expect((await readChat(frontend.url, CHAT)).finishReason).toBe('length');
    await waitUntil(async () => (await health(frontend.url)).body.away === undefined);
    expect((await health(`http://127.0.0.1:${port}`)).body).not.toHaveProperty('away');
  });
});
