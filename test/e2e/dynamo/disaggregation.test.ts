import { describe, expect, it } from 'vitest';
import { DYNAMO_MODEL, hasDynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { freePort } from '../../support/free-port.ts';
import { postJson, useFleet, waitUntil } from '../../support/index.ts';

const CHAT = { model: DYNAMO_MODEL, messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 };

describe.runIf(hasDynamo())("prefill and decode workers of Dynamo behind Stator's frontend", () => {
  const meeting = useMeeting('file', 'tcp');
  const fleet = useFleet();
  const dynamo = useDynamo(meeting);

  it('each do their half of a request, over the rendezvous of the prefill worker', async () => {
    const bootstrap = ['--bootstrap-ports', String(await freePort())];
    const [frontend, prefill] = await Promise.all([
      fleet.frontend([], meeting),
      dynamo.mocker({ args: ['--disaggregation-mode', 'prefill', ...bootstrap] }),
      dynamo.mocker({ args: ['--disaggregation-mode', 'decode'] }),
    ]);
    const asked = (): Promise<Response> => postJson(`${frontend.url}/v1/chat/completions`, CHAT);
    await waitUntil(async () => (await asked()).ok, { timeoutMs: 60_000, pollMs: 200, what: 'an answer' });
    const before = await requestsAt(prefill.url);
    expect((await asked()).status).toBe(200);
    expect(await requestsAt(prefill.url)).toBeGreaterThan(before);
    expect(frontend.stdout() + frontend.stderr()).not.toContain('a prefill failed');
  }, 120_000);
});

/** Returns the number of requests that a worker's `generate` endpoint has taken. */
async function requestsAt(url: string): Promise<number> {
  const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n');
  const [line] = lines.filter(
    (each) => each.startsWith('dynamo_component_requests_total{') && each.includes('dynamo_endpoint="generate"'),
  );
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0);
}
