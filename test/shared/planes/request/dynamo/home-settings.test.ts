import { networkInterfaces } from 'node:os';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../../shared/config/index.ts';
import { refuseDynamo } from '../../../../../shared/planes/index.ts';
import { addressOf } from '../../../../../shared/planes/request/dynamo/home-settings.ts';

const MANY_MACHINES = { DYN_DISCOVERY_BACKEND: 'etcd' };
const CERTIFICATES = { DYN_TCP_TLS_CERT_PATH: pem('first.crt'), DYN_TCP_TLS_KEY_PATH: pem('first.key') };

function refusal(env: Record<string, string>, process: 'frontend' | 'router' | 'local' = 'frontend') {
  return refuseDynamo(resolveConfig(process, [], env).settings);
}

describe('a process that meets workers of Dynamo', () => {
  it.each(['frontend', 'router', 'local'] as const)('calls those of its machine: %s', (process) => {
    expect(refusal({ DYN_DISCOVERY_BACKEND: 'file' }, process)).toBeUndefined();
  });

  it('says what to set before it listens beyond the machine without proof', () => {
    expect(refusal(MANY_MACHINES)).toBe(
      "the listener for answers of Dynamo's workers would listen on 0.0.0.0 for anybody who reaches it: set " +
        'DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1 if the workers are on this machine, or set DYN_TCP_TLS_CERT_PATH, ' +
        'DYN_TCP_TLS_KEY_PATH and DYN_TCP_TLS_CLIENT_CA_CERT_PATH here and at the workers, or set STATOR_PLANE_OPEN=on ' +
        'if only trusted machines reach it',
    );
  });

  it.each([
    ['a host of this machine', { DYN_TCP_RESPONSE_STREAM_HOST: '127.0.0.1' }],
    ['the interface of this machine', { DYN_TCP_RESPONSE_STREAM_HOST: loopbackName() }],
    ['certificates of callers', { ...CERTIFICATES, DYN_TCP_TLS_CLIENT_CA_CERT_PATH: pem('client.crt') }],
    ['the consent of the operator', { STATOR_PLANE_OPEN: 'true' }],
  ])('listens with %s', (_, env) => {
    expect(refusal({ ...MANY_MACHINES, ...env })).toBeUndefined();
  });

  it.each([
    ['a plane token, which those workers do not know', { STATOR_PLANE_TOKEN: 't'.repeat(32) }],
    ['a certificate of its own only', CERTIFICATES],
  ])('does not listen beyond the machine with %s', (_, env) => {
    expect(refusal({ ...MANY_MACHINES, ...env })).toContain('for anybody who reaches it');
  });

  it('leaves them to a frontend if it is a function, which nothing can dial', () => {
    const { settings } = resolveConfig('function', [], { STATOR_DISCOVERY_TABLE: 't' });
    expect(refuseDynamo(settings)).toBe(
      "Dynamo's workers deliver answers on connections that they open, and nothing can dial a function: serve the model by stator frontend",
    );
  });

  it('takes the name of an interface for its address', () => {
    expect(addressOf(loopbackName())).toEqual({ bind: '127.0.0.1', advertise: '127.0.0.1' });
    expect(addressOf('10.1.2.3')).toEqual({ bind: '10.1.2.3', advertise: '10.1.2.3' });
  });
});

function pem(name: string): string {
  return fileURLToPath(new URL(`../../../../fixtures/tls/${name}`, import.meta.url));
}

function loopbackName(): string {
  const found = Object.entries(networkInterfaces()).find(([, all]) =>
    all?.some(({ address }) => address === '127.0.0.1'),
  );
  return found?.[0] ?? 'lo';
}
