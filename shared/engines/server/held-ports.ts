import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { PortRange } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** Ports that an engine, or this process for it, is going to listen on. */
export interface PortWish {
  /** What says which, for messages: a setting or an argument of the engine. */
  readonly setting: string;
  /** The first free one of these. A range of one is somebody's own choice, and taken it is refused. */
  readonly ports: PortRange;
  /** Ports that go with it, by their distance: those of further ranks, or what an engine derives from it. @default [0] */
  readonly offsets?: readonly number[] | undefined;
  /** Address that is listened on. @default '127.0.0.1' */
  readonly host?: string | undefined;
}

const LOOPBACK = '127.0.0.1';
const PORT_MAX = 65_535;

/**
 * Ports of this machine that are kept for one engine from before it loads until it is gone. An engine listens minutes after
 * it was told where, and neighbours that start with it must not be told the same.
 *
 * Each port is kept by listening on the UDP port of its number: engines use TCP, the system gives a UDP port to one process
 * alone, whosever it is, and takes it back when that ends, however it does. So nothing is left behind by a crash.
 */
export class HeldPorts {
  readonly #locks: Socket[] = [];

  /**
   * The first port of `wish` that is free with all that go with it; they are held from now on.
   * @throws Error with one line that names setting and port when there is none
   */
  async take({ setting, ports: { first, last }, offsets = [0], host = LOOPBACK }: PortWish): Promise<number> {
    const span = Math.max(...offsets);
    const isNamed = first === last;
    let reason = '';
    for (let port = first; port <= (isNamed ? last : last - span); port++) {
      const fault = await this.#hold(
        offsets.map((offset) => port + offset),
        host,
      );
      if (fault === undefined) return port;
      reason = fault;
    }
    if (isNamed) throw new Error(`${setting}: ${reason}; name a free port`);
    const what = offsets.length === 1 ? 'no port' : `no ${offsets.length} ports beside each other`;
    throw new Error(
      `${setting}: ${what} of ${first}-${last} free${reason === '' ? '' : ` (${reason})`}; name other ports`,
    );
  }

  /** Lets all of them go. */
  release(): void {
    for (const lock of this.#locks.splice(0)) lock.close();
  }

  /** Why not all of `ports` can be had; undefined = they are held. */
  async #hold(ports: readonly number[], host: string): Promise<string | undefined> {
    const locks: Socket[] = [];
    for (const port of ports) {
      const lock = port > PORT_MAX ? `port ${port} does not exist` : await lockPort(port);
      const fault = typeof lock === 'string' ? lock : await faultOfPort(port, host);
      if (typeof lock !== 'string') locks.push(lock);
      if (fault === undefined) continue;
      for (const each of locks) each.close();
      return fault;
    }
    this.#locks.push(...locks);
    return undefined;
  }
}

/** Keeps `port` from other workers, or says why not. */
async function lockPort(port: number): Promise<Socket | string> {
  const socket = createSocket('udp4');
  const listening = once(socket, 'listening');
  socket.bind({ port, address: LOOPBACK, exclusive: true });
  try {
    await listening;
  } catch (thrown) {
    socket.close();
    return isTaken(thrown) ? `port ${port} is kept for another engine of this machine` : refusal(port, thrown);
  }
  return socket.on('error', () => {}).unref(); // nobody has business there, and what comes is not read
}

/** Why nothing can listen on `port` of `host`; undefined when it is free, or when `host` is not an address of this machine. */
async function faultOfPort(port: number, host: string): Promise<string | undefined> {
  const server = createServer();
  const listening = once(server, 'listening');
  server.listen({ port, host, exclusive: true });
  try {
    await listening;
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return undefined;
    return isTaken(thrown) ? `port ${port} is taken` : refusal(port, thrown);
  }
  await new Promise((resolve) => server.close(resolve));
  return undefined;
}

function isTaken(thrown: unknown): boolean {
  return (thrown as NodeJS.ErrnoException).code === 'EADDRINUSE';
}

function refusal(port: number, thrown: unknown): string {
  return `port ${port} cannot be had (${reasonOf(thrown)})`;
}
