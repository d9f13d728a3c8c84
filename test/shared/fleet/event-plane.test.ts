import { expect, it } from 'vitest';
import { SYSTEM } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { eventPlane } from '../../../shared/fleet/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';

const SCOPE = { kind: 'namespace', namespace: 'ns' } as const;

/** Where a publisher of a worker with these variables can be reached. */
async function endpointOf(
  env: Readonly<Record<string, string>>,
  process: 'worker' | 'frontend' = 'worker',
): Promise<string> {
  const flags = process === 'worker' ? ['--engine=mocker'] : [];
  const { settings } = resolveConfig(process, flags, { DYN_EVENT_PLANE: 'zmq', ...env });
  const plane = eventPlane(settings, SYSTEM.clock, silentLogger, undefined as never); // brokers alone are looked up there
  try {
    const { transport } = await plane.publisher(SCOPE, 'kv-events');
    return JSON.stringify(transport);
  } finally {
    await plane.close();
  }
}

it('publishes on loopback while the whole fleet is on this machine', async () => {
  expect(await endpointOf({ DYN_DISCOVERY_BACKEND: 'file' })).toContain('tcp://127.0.0.1:');
  expect(await endpointOf({ DYN_DISCOVERY_BACKEND: 'mem', DYN_EVENT_PLANE_HOST: 'auto' })).toContain('127.0.0.1:');
});

it.each([
  { DYN_DISCOVERY_BACKEND: 'file', DYN_EVENT_PLANE_HOST: '0.0.0.0' },
  { DYN_DISCOVERY_BACKEND: 'dynamodb', STATOR_DISCOVERY_TABLE: 't' },
])('publishes nothing with %o, and says what to set', async (env) => {
  const words =
    /^a ZMQ publisher of the event plane would listen on 0\.0\.0\.0 .*DYN_EVENT_PLANE=nats.*STATOR_PLANE_OPEN=on/;
  await expect(endpointOf(env)).rejects.toThrow(words);
  await expect(endpointOf({ ...env, STATOR_PLANE_TOKEN: 't'.repeat(32) })).rejects.toThrow(words); // proves nothing here
  expect(await endpointOf({ ...env, STATOR_PLANE_OPEN: 'on' })).toMatch(/tcp:\/\/[\d.]+:/);
});

it.each([
  ['a worker that publishes for Dynamo', 'worker', { STATOR_WIRE: 'dynamo' }, 'DYN_EVENT_PLANE=nats'],
  ['a frontend, which cannot choose its address', 'frontend', {}, 'DYN_EVENT_PLANE_HOST'],
] as const)('names no setting that does not help %s', async (_, process, env, useless) => {
  const reason = await endpointOf({ DYN_DISCOVERY_BACKEND: 'etcd', ...env }, process).catch(String);
  expect(reason).toContain('would listen on 0.0.0.0');
  expect(reason).not.toContain(useless);
  expect(reason).toContain('STATOR_PLANE_OPEN=on');
});
