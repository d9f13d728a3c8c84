import type { NetworkInterfaceInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import { listenAddress } from '../../../shared/planes/listen-address.ts';

function ipv4(address: string, internal = false): NetworkInterfaceInfo {
  return { address, internal, family: 'IPv4', netmask: '255.255.255.0', mac: '00:00:00:00:00:00', cidr: null };
}

describe('the address that others get', () => {
  it('is the first that they can reach: no loopback, none that is local to the link', () => {
    const interfaces = { lo: [ipv4('127.0.0.1', true)], eth0: [ipv4('169.254.172.2')], eth1: [ipv4('10.0.1.7')] };
    expect(listenAddress('auto', interfaces)).toEqual({ bind: '0.0.0.0', advertise: '10.0.1.7' });
  });

  it('is the loopback on a machine without a network', () => {
    expect(listenAddress('auto', { lo: [ipv4('127.0.0.1', true)] }).advertise).toBe('127.0.0.1');
  });

  it('is the configured one, where one is', () => {
    expect(listenAddress('10.0.1.9', {})).toEqual({ bind: '10.0.1.9', advertise: '10.0.1.9' });
  });
});
