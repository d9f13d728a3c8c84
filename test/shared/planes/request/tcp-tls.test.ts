import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { createTcpRequestPlane, type TcpRequestPlane } from '../../../../shared/planes/request/tcp/plane.ts';
import type { PlaneTls } from '../../../../shared/planes/request/tcp/tls.ts';
import { RecordingSink } from '../../../contract/planes/recording-sink.ts';
import { readTlsFixture, waitUntil } from '../../../support/index.ts';

const ENDPOINT = '2a/dynamo/backend/generate';
const FIRST = { cert: readTlsFixture('first.crt'), key: readTlsFixture('first.key') };
const SECOND = { cert: readTlsFixture('second.crt'), key: readTlsFixture('second.key') };
const CLIENT = { cert: readTlsFixture('client.crt'), key: readTlsFixture('client.key') };

const planes: TcpRequestPlane[] = [];
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const plane of planes.splice(0)) await plane.close();
  for (const close of closers.splice(0)) await close();
});

function plane(tls?: PlaneTls): TcpRequestPlane {
  const created = createTcpRequestPlane({
    clock: systemClock,
    host: '127.0.0.1',
    connectTimeoutMs: 1000,
    idleAfterMs: 50,
    ...(tls && { tls }),
  });
  planes.push(created);
  return created;
}

async function worker(tls?: PlaneTls) {
  const serving = plane(tls);
  const server = await serving.serve({ instanceId: '2a' });
  closers.push(() => server.close());
  const transport = server.handle(ENDPOINT, (call) => {
    call.accept();
    call.end();
  });
  return { serving, transport };
}

/** How a call ends: `end`, or the kind of its failure. */
async function outcome(caller: TcpRequestPlane, transport: Awaited<ReturnType<typeof worker>>['transport']) {
  const sink = new RecordingSink();
  caller.call(transport, { id: 'r', headers: {}, body: {} }, sink);
  await waitUntil(() => sink.isClosed, { what: 'the end of the call' });
  return sink.failure?.worker ?? 'end';
}

describe('TLS of the TCP request plane', () => {
  it('serves callers that trust the worker', async () => {
    const { transport } = await worker({ server: FIRST });
    expect(await outcome(plane({ client: { ca: FIRST.cert } }), transport)).toBe('end');
  });

  it.each<[string, PlaneTls | undefined, PlaneTls | undefined]>([
    ['a caller that does not trust the worker', { server: FIRST }, { client: { ca: SECOND.cert } }],
    ['a plain caller of a secured worker', { server: FIRST }, undefined],
    ['a secured caller of a plain worker', undefined, { client: { ca: FIRST.cert } }],
    ['a worker of another name', { server: FIRST }, { client: { ca: FIRST.cert, serverName: 'elsewhere' } }],
    ['a caller without a certificate', { server: { ...FIRST, clientCa: CLIENT.cert } }, { client: { ca: FIRST.cert } }],
    [
      'a caller with a certificate of another authority',
      { server: { ...FIRST, clientCa: CLIENT.cert } },
      { client: { ca: FIRST.cert, ...SECOND } },
    ],
  ])('refuses %s, as a failure that another worker may mend', async (_, serverTls, clientTls) => {
    const { transport } = await worker(serverTls);
    expect(['CannotConnect', 'Disconnected', 'ConnectionTimeout']).toContain(
      await outcome(plane(clientTls), transport),
    );
  });

  it('takes the configured name instead of the address, and any certificate if checks are off', async () => {
    const { transport } = await worker({ server: FIRST });
    const named: PlaneTls = { client: { ca: FIRST.cert, serverName: 'localhost' } };
    expect(await outcome(plane(named), transport)).toBe('end');
    expect(await outcome(plane({ client: { isInsecure: true } }), transport)).toBe('end');
  });

  it('shows a renewed certificate to new connections', async () => {
    const { serving, transport } = await worker({ server: FIRST });
    const caller = plane({ client: { ca: FIRST.cert } });
    expect(await outcome(caller, transport)).toBe('end');
    serving.renewTls({ server: SECOND });
    expect(await outcome(plane({ client: { ca: SECOND.cert } }), transport)).toBe('end');
    expect(await outcome(plane({ client: { ca: FIRST.cert } }), transport)).not.toBe('end');
    caller.renewTls({ client: { ca: SECOND.cert } });
    // The standing connection goes on until it is idle; after that the caller looks at the new certificate.
    expect(await outcome(caller, transport)).toBe('end');
  });
});
