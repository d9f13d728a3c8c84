import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Ports below those that systems give to outgoing connections. Such a connection could take the port while its server
 * is away.
 */
const PORTS = { from: 10_000, count: 20_000 };
const TRIES_MAX = 100;
/** Test processes that run at a time (`maxWorkers` in vitest.config.ts). Each uses every fourth port. */
const SHARES = 4;
const SHARE = Number(process.env.VITEST_POOL_ID ?? process.pid) % SHARES;
/** Ports that this process has given out. Their servers may not listen yet, or may be away for a while. */
const given = new Set<number>();

/** Returns a TCP port of 127.0.0.1 that was free a moment ago. No outgoing connection and no other test takes it. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const port = PORTS.from + SHARES * Math.floor((Math.random() * PORTS.count) / SHARES) + SHARE;
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port of ${PORTS.count} from ${PORTS.from} in ${TRIES_MAX} tries`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
