import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems give to outgoing connections: one of those could sit on the port while its server is away. */
const PORTS = { from: 10_000, count: 20_000 };
const TRIES_MAX = 100;

/** A TCP port of 127.0.0.1 that was free a moment ago, and that no outgoing connection will take. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const port = PORTS.from + Math.floor(Math.random() * PORTS.count);
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
