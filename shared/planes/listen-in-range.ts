import { once } from 'node:events';
import type { Server } from 'node:net';
import type { PortRange } from '../config/index.ts';

/**
 * Listens on the first port of `ports` that is free, so that the processes of a machine share a range that a firewall can
 * name. Rejects with what the system says, or with one line that names the range when all of it is taken.
 */
export async function listenInRange(server: Server, { first, last }: PortRange, host: string): Promise<void> {
  for (let port = first; port <= last; port++) {
    server.listen(port, host);
    try {
      await once(server, 'listening');
      return;
    } catch (thrown) {
      const isTaken = (thrown as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isTaken || first === last) throw thrown;
    }
  }
  throw new Error(`every port of ${first}-${last} is taken`);
}
