import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems give to outgoing connections: one of those could sit on the port while its server is away. */
const PORTS = { from: 10_000, count: 20_000 };
const TRIES_MAX = 100;
/** Each of the test processes that run at a time (`maxWorkers` in vitest.config.ts) has ports of its own: every fourth. */
const SHARES = 4;
const SHARE = Number(process.env.VITEST_POOL_ID ?? process.pid) % SHARES;
/** What this process was given before: its server may not listen yet, or be away for a while. */
const given = new Set<number>();

/** A TCP port of 127.0.0.1 that was free a moment ago, and that neither an outgoing connection nor another test will take. */
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
