import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { askAbout, freePort, postJson, runStator, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const LOOPBACK = { STATOR_LEASE_TTL_SECS: '2', DYN_TCP_RPC_HOST: '127.0.0.1' };
/** Processes that share the machine with others need more than the 10 ms of production. */
const PATIENT = { STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '500', STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000' };
const KV = ['--router-mode=kv'];

const tlsFile = (name: string): string => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
/** A fleet in which every listener shows a certificate, and every caller the token. */
const SECURED = {
  STATOR_PLANE_TOKEN: 't'.repeat(32),
  STATOR_PLANE_TLS: 'on',
  DYN_TCP_TLS_CERT_PATH: tlsFile('first.crt'),
  DYN_TCP_TLS_KEY_PATH: tlsFile('first.key'),
  DYN_TCP_TLS_CA_CERT_PATH: tlsFile('first.crt'),
};

describe.each([
  { scheme: 'tcp', portName: 'DYN_TCP_RPC_PORT', by: 'tcp', secured: {} },
  { scheme: 'grpc', portName: 'STATOR_ROUTER_GRPC_PORT', by: 'grpc', secured: {} },
  { scheme: 'grpc', portName: 'STATOR_ROUTER_GRPC_PORT', by: 'grpc with TLS', secured: SECURED },
])('a container with the role router, and a frontend that knows its address ($by)', ({ scheme, portName, secured }) => {
  const fleet = useFleet({ ...LOOPBACK, ...PATIENT, ...secured });
  let router: StatorProcess;
  let asker: StatorProcess;
  let port: number;

  const startRouter = (): Promise<StatorProcess> =>
    fleet.frontend(KV, { STATOR_ROLES: 'router', [portName]: String(port) });

  /** Asks until the router decides once more. */
  const untilDecided = async (): Promise<void> => {
    const decided = (): Promise<number> => asker.metric('stator_router_decisions_total', 'source="resident"');
    const before = await decided();
    await waitUntil(
      async () => {
        await askAbout(asker, 'who decides', 20);
        return (await decided()) > before;
      },
      { what: 'a decision of the router', timeoutMs: 20_000, pollMs: 50 },
    );
  };

  beforeAll(async () => {
    const nobody = await freePort();
    port = await freePort();
    const url = { STATOR_ROUTER_URL: `${scheme}://127.0.0.1:${nobody},${scheme}://127.0.0.1:${port}` };
    const worker = ['--block-size=16', '--speedup-ratio=50'];
    const started = await Promise.all([startRouter(), fleet.frontend(KV, url), fleet.worker(worker)]);
    [router, asker] = [started[0], started[1]];
    await Promise.all([fleet.untilWorkers(asker, 1)]);
  });

  it('lets the router decide, and finds the next one at the same address', async () => {
    await untilDecided();
    router.signal('SIGKILL');
    await router.exited;
    expect((await askAbout(asker, 'alone', 20)).prompt).toBeGreaterThan(0);
    expect(await asker.metric('stator_router_degraded')).toBe(1);
    router = await startRouter();
    await untilDecided();
  });

  it('lets the router explain', async () => {
    const shown = await runStator(['router', 'explain', '--prompt', 'who decides', '--url', asker.url]);
    expect(shown.stderr).toBe('');
    expect(shown.stdout).toMatch(/^chosen {3}worker [0-9a-f]+ rank 0, /m);
  });

  it('answers health, metrics and operators there, and no clients', async () => {
    const chat = { model: 'stator-mini', messages: [{ role: 'user', content: 'hello' }] };
    expect((await postJson(`${router.url}/v1/chat/completions`, chat)).status).toBe(404);
    for (const path of ['/health', '/live', '/metrics', '/v1/models', '/busy_threshold']) {
      expect((await fetch(`${router.url}${path}`)).status, path).toBe(200);
    }
  });
});

describe('the address of a router', () => {
  it.each([
    ['tcp://127.0.0.1:1', '--request-plane=nats'],
    ['grpc://127.0.0.1', '--request-plane=tcp'],
  ])('%s is refused with %s', async (url, plane) => {
    const asked = { STATOR_ROUTER_URL: url, DYN_DISCOVERY_BACKEND: 'mem' };
    const { code, stderr } = await runStator(['frontend', '--http-port=0', plane, ...KV], asked);
    expect(code).toBe(2);
    expect(stderr).toContain(`its STATOR_ROUTER_GRPC_PORT; got "${url}"`);
  });
});
