import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectSecurely } from 'node:tls';
import { afterEach, expect, it } from 'vitest';
import { resolveConfig } from '../../../../../shared/config/index.ts';
import { openDynamoServing, silentObserver } from '../../../../../shared/planes/index.ts';
import { DynamoPlaneServer } from '../../../../../shared/planes/request/dynamo/server.ts';
import { readTlsFixture } from '../../../../support/index.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';
import { servingSettings } from './serving.ts';

const FIRST = { cert: readTlsFixture('first.crt'), key: readTlsFixture('first.key') };
const SECOND = { cert: readTlsFixture('second.crt'), key: readTlsFixture('second.key') };

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function portOf(place: string | undefined): number {
  return Number(place?.split(':')[1]);
}

/** Opens a connection that says nothing. */
async function silent(port: number) {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  cleanups.push(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Connects, and returns whether the certificate of the worker is `cert`. */
async function trusts({ cert }: typeof FIRST, port: number): Promise<boolean> {
  const socket = connectSecurely({ host: '127.0.0.1', port, ca: cert });
  const isTrusted = await once(socket, 'secureConnect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isTrusted;
}

it('closes although a caller has not said anything yet', async () => {
  const server = await DynamoPlaneServer.listen(servingSettings({ tls: { server: FIRST } }));
  await silent(portOf(server.place));
  expect(await trusts(FIRST, portOf(server.place))).toBe(true); // so that the worker has the silent connection, too
  await server.close();
});

it('closes a connection whose handshake does not come, and reports it', async () => {
  let errors = 0;
  const observer = { ...silentObserver, connectionError: () => void errors++ };
  const tls = { server: FIRST, handshakeTimeoutMs: 20 };
  const server = await DynamoPlaneServer.listen(servingSettings({ tls, observer }));
  cleanups.push(() => server.close());
  const socket = await silent(portOf(server.place));
  socket.resume();
  await once(socket, 'close');
  expect(errors).toBe(1);
});

it('shows a certificate that was renewed while it runs', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stator-certificates-'));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const paths = { DYN_TCP_TLS_CERT_PATH: join(folder, 'crt'), DYN_TCP_TLS_KEY_PATH: join(folder, 'key') };
  const write = ({ cert, key }: typeof FIRST): void => {
    writeFileSync(paths.DYN_TCP_TLS_CERT_PATH, cert);
    writeFileSync(paths.DYN_TCP_TLS_KEY_PATH, key);
  };
  write(FIRST);
  const clock = new VirtualClock();
  const { settings } = resolveConfig('worker', ['--engine', 'mocker'], {
    ...paths,
    STATOR_WIRE: 'dynamo',
    DYN_DISCOVERY_BACKEND: 'file',
  });
  const plane = openDynamoServing(settings, { clock, observer: silentObserver });
  const server = await plane.serve({ instanceId: '2a' });
  cleanups.push(() => server.close());
  const port = portOf(server.place);
  expect([await trusts(FIRST, port), await trusts(SECOND, port)]).toEqual([true, false]);
  write(SECOND);
  await clock.advance(10_000);
  expect([await trusts(FIRST, port), await trusts(SECOND, port)]).toEqual([false, true]);
  await plane.close();
  expect(clock.pendingTimers).toBe(0);
});
