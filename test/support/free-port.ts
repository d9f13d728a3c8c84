import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Ports below those that systems give to outgoing connections. Such a connection could take the port while its server
 * is away.
 */
const PORTS = { from: 10_000, count: 20_000 };
const TRIES_MAX = 100;
/** Test processes that run at a time (`maxWorkers` in vitest.config.ts). Each uses every fifth block of ports. */
const SHARES = 5;
const SHARE = Number(process.env.VITEST_POOL_ID ?? process.pid) % SHARES;
/** Ports of a block: a server that binds a few ports in a row does not take the port of another test. */
const BLOCK = 4;
/** Ports that this process has given out. Their servers may not listen yet, or may be away for a while. */
const given = new Set<number>();

/** Returns a TCP port of 127.0.0.1 that was free a moment ago. No outgoing connection and no other test takes it. */
export function freePort(): Promise<number> {
  return freePorts(1);
}

/** Returns the first of `count` such ports in a row. @param count at most four */
export async function freePorts(count: number): Promise<number> {
  if (count > BLOCK) throw new Error(`${count} ports in a row: at most ${BLOCK}`);
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const block = SHARES * Math.floor((Math.random() * PORTS.count) / (SHARES * BLOCK)) + SHARE;
    const first = PORTS.from + block * BLOCK + Math.floor(Math.random() * (BLOCK - count + 1));
    const ports = Array.from({ length: count }, (_, at) => first + at);
    if (ports.some((port) => given.has(port))) continue;
    for (const port of ports) given.add(port);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return first;
  }
  throw new Error(`no ${count} free ports of ${PORTS.count} from ${PORTS.from} in ${TRIES_MAX} tries`);
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
