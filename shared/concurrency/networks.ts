import type { Socket } from 'node:net';
import type { NetworkInterfaceInfo } from 'node:os';

/**
 * Returns the party that a connection counts against under a limit: for an IPv6 address the network, because one client
 * has many addresses of it.
 */
export function networkOf({ remoteAddress = '' }: Pick<Socket, 'remoteAddress'>): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(remoteAddress)?.[1];
  if (mapped !== undefined || !remoteAddress.includes(':')) return mapped ?? remoteAddress;
  const [head = '', tail] = remoteAddress.split('::');
  const groups = head.split(':').filter((group) => group !== '');
  const last = tail?.split(':').length ?? 0;
  while (tail !== undefined && groups.length + last < 8) groups.push('0');
  return groups.slice(0, 4).join(':');
}

/** Addresses by which other machines reach this one. Undefined if it has none of the family. */
export interface ReachableAddresses {
  readonly ipv4: string | undefined;
  readonly ipv6: string | undefined;
}

/** Link-local addresses: 169.254.0.0/16 and fe80::/10. */
const LINK_LOCAL = /^(?:169\.254\.|fe[89ab])/i;

/**
 * Returns the first address of each family that other machines can reach. A link-local address does not count
 * (containers on AWS have one for their metadata).
 */
export function reachableAddresses(interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>): ReachableAddresses {
  const all = Object.values(interfaces).flatMap((addresses) => addresses ?? []);
  const reachable = all.filter(({ internal, address }) => !internal && !LINK_LOCAL.test(address));
  const first = (wanted: 'IPv4' | 'IPv6') => reachable.find(({ family }) => family === wanted)?.address;
  return { ipv4: first('IPv4'), ipv6: first('IPv6') };
}
