import type { Socket } from 'node:net';

/** Whose share of a bound a connection counts against: of an IPv6 address the network, of which one client has many. */
export function networkOf({ remoteAddress = '' }: Pick<Socket, 'remoteAddress'>): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(remoteAddress)?.[1];
  if (mapped !== undefined || !remoteAddress.includes(':')) return mapped ?? remoteAddress;
  const [head = '', tail] = remoteAddress.split('::');
  const groups = head.split(':').filter((group) => group !== '');
  const last = tail?.split(':').length ?? 0;
  while (tail !== undefined && groups.length + last < 8) groups.push('0');
  return groups.slice(0, 4).join(':');
}
