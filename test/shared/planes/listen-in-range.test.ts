import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { listenInRange } from '../../../shared/planes/listen-address.ts';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) if (server.listening) await once(server.close(), 'close');
});

async function listening(first: number, last = first): Promise<number> {
  const server = createServer();
  servers.push(server);
  await listenInRange(server, { first, last }, '127.0.0.1');
  return (server.address() as AddressInfo).port;
}

describe('a range of ports', () => {
  it('gives each process the first port that is free, and says so when none is', async () => {
    const taken = await listening(0);
    const next = await listening(taken, Math.min(taken + 20, 65_535));
    expect(next).toBeGreaterThan(taken);
    await expect(listening(taken, next)).rejects.toThrow(/taken|EADDRINUSE/);
  });

  it('tells what the system says of a single port, and of an address that is not there', async () => {
    const taken = await listening(0);
    await expect(listening(taken)).rejects.toThrow('EADDRINUSE');
    const server = createServer();
    await expect(listenInRange(server, { first: 20_000, last: 20_010 }, '192.0.2.1')).rejects.toThrow('EADDRNOTAVAIL');
  });
});
