import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, postJson, type SpawnedProcess, waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

/** A machine shared with other tests is slower than one that serves. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '500', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
/** Who was killed is soon forgotten. */
const LEASE = { STATOR_LEASE_TTL_SECS: '2' };

let bed: FunctionBed;
let runtime: LambdaRuntime;

type Env = Readonly<Record<string, string>>;

function startWorker(): Promise<SpawnedProcess> {
  return bed.startWorker({ flags: ['--block-size=16'], env: LEASE });
}

async function startResident(env: Env = {}): Promise<SpawnedProcess> {
  const flags = ['--http-host=127.0.0.1', '--http-port=0', '--router-mode=kv', '--router-role=resident'];
  const resident = bed.spawn(['frontend', ...flags], { env: { ...LEASE, ...env } });
  await resident.waitForOutput(/serving url=/, 30_000);
  return resident;
}

function startFunction(env: Env = {}): Promise<LambdaRuntime> {
  return bed.startFunction({ DYN_ROUTER_MODE: 'kv', ...PATIENT, ...env });
}

/** Status of one short answer of the function. */
async function ask(): Promise<number> {
  const content = 'parts meet where their edges fit; '.repeat(20);
  const messages = [{ role: 'user', content }];
  const response = await postJson(`${runtime.url}/v1/chat/completions`, { model: MODEL, max_tokens: 2, messages });
  await response.arrayBuffer();
  await runtime.idle();
  return response.status;
}

async function metric(name: string, label: string): Promise<number> {
  const text = await (await fetch(`${runtime.url}/metrics`)).text();
  await runtime.idle();
  const line = text.split('\n').find((each) => each.startsWith(`${name}{${label}}`));
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0);
}

const decisions = (source: string): Promise<number> => metric('stator_router_decisions_total', `source="${source}"`);

/** Asks until one more decision comes from `source`; every answer on the way is good. */
async function untilDecidedBy(source: string): Promise<void> {
  const before = await decisions(source);
  await waitUntil(
    async () => {
      expect(await ask()).toBe(200);
      return (await decisions(source)) > before;
    },
    { what: `a decision of ${source}`, timeoutMs: 30_000, pollMs: 100 },
  );
}

describe.runIf(hasFunctionBed())('the deployed function in router mode kv', () => {
  beforeAll(async () => {
    bed = await FunctionBed.open();
    await Promise.all([startWorker(), startWorker()]);
    runtime = await startFunction();
  }, 120_000);

  afterAll(async () => {
    await runtime.stop();
    await bed.close();
  });

  it('hashes while there is no resident router', async () => {
    expect(await ask()).toBe(200);
    expect(await decisions('stateless')).toBe(1);
    expect(await metric('stator_router_fallbacks_total', 'reason="no_resident"')).toBe(1);
  });

  it('lets a resident decide as soon as there is one, and goes on without it when it is killed', async () => {
    const resident = await startResident();
    await untilDecidedBy('resident');
    resident.signal('SIGKILL');
    await resident.exited;
    await untilDecidedBy('stateless');
    await startResident();
    await untilDecidedBy('resident');
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
  }, 120_000);

  it.each([
    ['tcp', 'DYN_TCP_RPC_PORT'],
    ['grpc', 'STATOR_ROUTER_GRPC_PORT'],
  ])(
    'asks at the given address, and nowhere else (%s)',
    async (scheme, portName) => {
      const port = String(await freePort());
      await runtime.stop();
      runtime = await startFunction({ STATOR_ROUTER_URL: `${scheme}://127.0.0.1:${port}` });
      await untilDecidedBy('stateless');
      expect(await decisions('resident')).toBe(0); // of which discovery has one
      await startResident({ [portName]: port });
      await untilDecidedBy('resident');
      expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
    },
    120_000,
  );
});
