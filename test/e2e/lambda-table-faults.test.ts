import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type CountingTableProxy, startCountingTableProxy, type TableFault } from '../support/counting-table-proxy.ts';
import { waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

/** The function reads the table anew for what it has known for longer. */
const KNOWN_MS_MAX = 1000;

const FAULTS: readonly (readonly [string, TableFault])[] = [
  ['answers after 500 ms', { delayMs: 500 }],
  ['answers after 3 s', { delayMs: 3000 }],
  ['never answers', { isSilent: true }],
  ['throttles half of the calls', { throttledShare: 0.5 }],
  ['throttles every call', { throttledShare: 1 }],
];

/** The bundle that is deployed, under Lambda's runtime client, with a table that is slow, throttled or away. */
describe.runIf(hasFunctionBed())('the function and a table with a fault', () => {
  let bed: FunctionBed;
  let proxy: CountingTableProxy;
  let runtime: LambdaRuntime;
  let cold: LambdaRuntime | undefined;

  const start = () =>
    bed.startFunction({
      STATOR_DYNAMODB_ENDPOINT: proxy.url,
      STATOR_AUTH: 'off',
      DYN_REQUEST_PLANE: 'tcp',
      DYN_ROUTER_MODE: 'round-robin',
    });

  const ask = (of: LambdaRuntime): Promise<Response> =>
    fetch(`${of.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: 'Hi' }] }),
    });

  beforeAll(async () => {
    bed = await FunctionBed.open();
    proxy = await startCountingTableProxy(bed.server.url);
    await bed.startWorker();
    runtime = await start();
    await waitUntil(async () => {
      const { status } = await ask(runtime);
      await runtime.idle();
      return status === 200;
    });
  });

  afterEach(async () => {
    proxy.fail();
    await cold?.stop();
    cold = undefined;
  });

  afterAll(async () => {
    await runtime.stop();
    await proxy.close();
    await bed.close();
  });

  it.each(FAULTS)('serves from what a warm environment knows while its table %s', async (_name, fault) => {
    await runtime.idle();
    const knownAtMs = performance.now();
    await waitUntil(() => performance.now() - knownAtMs > KNOWN_MS_MAX, { what: 'what is known to be too old' });
    proxy.fail(fault);
    for (let request = 0; request < 5; request++) {
      expect((await ask(runtime)).status).toBe(200);
      await runtime.idle();
    }
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
  });

  it.each(FAULTS.filter(([, { delayMs = 3000, throttledShare = 1 }]) => delayMs >= 3000 && throttledShare === 1))(
    'says when to try again where an environment starts cold while its table %s',
    async (_name, fault) => {
      proxy.fail(fault);
      cold = await start();
      const response = await ask(cold);
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(await response.json()).toMatchObject({ error: { code: 'service_unavailable' } });
      await cold.idle();
      proxy.fail();
      expect((await ask(cold)).status).toBe(200); // the same environment, once the table is back
    },
  );
});
