import { once } from 'node:events';
import { createServer } from 'node:net';

const TRIES_MAX = 50;

/**
 * The first of `count` neighbouring TCP ports that are free on the loopback, from `first` up; 0 = anywhere. Another process
 * may take one before the engine does: the engine then fails to start and says so.
 *
 * @throws Error when there are none
 */
export async function freePorts(count: number, first = 0): Promise<number> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const base = first === 0 ? await freePort() : first + attempt * count;
    if (base !== undefined && (await areFree(base, count))) return base;
  }
  throw new Error(`no ${count} free TCP ports from ${first} on`);
}

async function areFree(base: number, count: number): Promise<boolean> {
  for (let at = 0; at < count; at++) if ((await freePort(base + at)) === undefined) return false;
  return true;
}

/** `port` if it is free, else undefined; any free one for 0. */
async function freePort(port = 0): Promise<number | undefined> {
  if (port > 65_535) return undefined;
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return undefined; // taken, or not ours to take
  }
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : undefined;
}
