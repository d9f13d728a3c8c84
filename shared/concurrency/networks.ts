import type { Socket } from 'node:net';

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
