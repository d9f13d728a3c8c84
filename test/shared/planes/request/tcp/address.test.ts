import { expect, it } from 'vitest';
import { formatHostPort, listenAddress, settingOfListener } from '../../../../../shared/planes/listen-address.ts';
import { targetOf } from '../../../../../shared/planes/request/tcp/plane.ts';

it.each([
  ['10.0.0.5:40001/2a/ns/backend/generate', '10.0.0.5', 40001, '2a', '2a/ns/backend/generate'],
  ['worker-1.local:80/694d98147d54be25/a', 'worker-1.local', 80, '694d98147d54be25', '694d98147d54be25/a'],
  ['[fd00::1]:9000/7/ns/c/e', 'fd00::1', 9000, '7', '7/ns/c/e'],
])('reads %s', (tcp, host, port, instanceId, endpoint) => {
  expect(targetOf({ tcp })).toEqual({ host, port, instanceId, endpoint, poolKey: `${host}:${port}/${instanceId}` });
});

it.each(['', 'host', 'host:1', 'host:1/', ':1/a', 'host:0/a', 'host:99999/a', 'host:x/a', 'fd00::1:9000/a'])(
  'cannot connect to %j',
  (tcp) => {
    expect(() => targetOf({ tcp })).toThrow(expect.objectContaining({ worker: 'CannotConnect' }));
  },
);

it('cannot connect to the transport of another plane', () => {
  expect(() => targetOf({ memory: 'a' })).toThrow(expect.objectContaining({ worker: 'CannotConnect' }));
});

it('advertises what it was told, or the first address that others can reach', () => {
  const entry = { netmask: '', mac: '', cidr: null };
  const interfaces = {
    lo: [{ ...entry, address: '127.0.0.1', family: 'IPv4' as const, internal: true }],
    eth0: [
      { ...entry, address: 'fe80::1', family: 'IPv6' as const, internal: false, scopeid: 1 },
      { ...entry, address: '10.1.2.3', family: 'IPv4' as const, internal: false },
    ],
  };
  expect(listenAddress('127.0.0.1', interfaces)).toEqual({ bind: '127.0.0.1', advertise: '127.0.0.1' });
  expect(listenAddress('auto', interfaces)).toEqual({ bind: '0.0.0.0', advertise: '10.1.2.3' });
  expect(listenAddress('0.0.0.0', interfaces)).toEqual({ bind: '0.0.0.0', advertise: '10.1.2.3' });
  expect(listenAddress('::', interfaces)).toEqual({ bind: '::', advertise: '10.1.2.3' });
  expect(listenAddress('auto', { lo: interfaces.lo })).toEqual({ bind: '0.0.0.0', advertise: '127.0.0.1' });
  const ipv6 = {
    lo: interfaces.lo,
    eth0: [
      { ...entry, address: '169.254.1.2', family: 'IPv4' as const, internal: false },
      { ...entry, address: 'fe80::1', family: 'IPv6' as const, internal: false, scopeid: 1 },
      { ...entry, address: 'fd00::7', family: 'IPv6' as const, internal: false, scopeid: 0 },
    ],
  };
  expect(listenAddress('auto', ipv6)).toEqual({ bind: '::', advertise: 'fd00::7' });
  expect(listenAddress('::', ipv6)).toEqual({ bind: '::', advertise: 'fd00::7' });
  expect(listenAddress('0.0.0.0', ipv6)).toEqual({ bind: '0.0.0.0', advertise: '127.0.0.1' });
  expect(formatHostPort('::1', 5)).toBe('[::1]:5');
});

it.each([
  ['DYN_TCP_RPC_HOST', ['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EAI_AGAIN', 'EINVAL', 'ENOTFOUND']],
  ['DYN_TCP_RPC_PORT', ['EACCES', 'EADDRINUSE', undefined]],
])('names %s if a listener fails by its part of the address', (setting, codes) => {
  for (const code of codes) expect(settingOfListener(Object.assign(new Error('listen'), { code }))).toBe(setting);
});
