import { once } from 'node:events';
import { createServer } from 'node:net';
import { type Random, systemRandom } from '../../clock/index.ts';

const TRIES_MAX = 50;
/** Anywhere: below the ports that systems give to outgoing connections, which would take one while the engine loads. */
const ANYWHERE = { from: 10_000, count: 20_000 } as const;

/**
 * The first of `count` neighbouring TCP ports that are free on the loopback, from `first` up; 0 = anywhere. Another process
 * may take one before the engine does: the engine then fails to start and says so.
 *
 * @throws Error when there are none
 */
export async function freePorts(count: number, first = 0, random: Random = systemRandom): Promise<number> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const base = first === 0 ? ANYWHERE.from + random.below(ANYWHERE.count) : first + attempt * count;
    if (await areFree(base, count)) return base;
  }
  throw new Error(`no ${count} free TCP ports from ${first} on`);
}

async function areFree(base: number, count: number): Promise<boolean> {
  for (let at = 0; at < count; at++) if (!(await isFree(base + at))) return false;
  return true;
}

async function isFree(port: number): Promise<boolean> {
  if (port > 65_535) return false;
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false; // taken, or not ours to take
  }
  await new Promise((resolve) => server.close(resolve));
  return true;
}
