import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { PortRange } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** Ports on which an engine, or this process for it, will listen. */
export interface PortWish {
  /** Name of the setting or the engine's argument that gives them, for messages. */
  readonly setting: string;
  /**
   * Range from which the first free port is taken. A range of one port is a user's choice: it is refused if the port is
   * taken.
   */
  readonly ports: PortRange;
  /**
   * Ports that belong to it, by their distance: those of further ranks, or ports that an engine derives. @default [0]
   */
  readonly offsets?: readonly number[] | undefined;
  /** Address to listen on. @default '127.0.0.1' */
  readonly host?: string | undefined;
}

const LOOPBACK = '127.0.0.1';
const PORT_MAX = 65_535;

/**
 * Ports of this machine that are reserved for one engine from before it loads until it is gone. An engine begins to
 * listen minutes after its start, and other engines that start meanwhile must not get the same ports.
 *
 * A port is reserved by listening on the UDP port of the same number, which engines, using TCP, do not need. The system
 * gives a UDP port to only one process, and takes it back when that process ends for any reason, also in a crash.
 */
export class HeldPorts {
  readonly #locks: Socket[] = [];

  /**
   * Reserves the first port of `wish` that is free together with all that belong to it.
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
    const what = offsets.length === 1 ? 'no port' : `no ${offsets.length} adjacent ports`;
    throw new Error(
      `${setting}: ${what} of ${first}-${last} free${reason === '' ? '' : ` (${reason})`}; name other ports`,
    );
  }

  /** Releases all of them. */
  release(): void {
    for (const lock of this.#locks.splice(0)) lock.close();
  }

  /** Reserves `ports`; returns why not all of them are available, or undefined. */
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

/** Reserves `port` against other workers, or returns why not. */
async function lockPort(port: number): Promise<Socket | string> {
  const socket = createSocket('udp4');
  const listening = once(socket, 'listening');
  socket.bind({ port, address: LOOPBACK, exclusive: true });
  try {
    await listening;
  } catch (thrown) {
    socket.close();
    return isTaken(thrown) ? `port ${port} is reserved for another engine of this machine` : refusal(port, thrown);
  }
  return socket.on('error', () => {}).unref(); // messages to it are not read
}

/**
 * Returns why nothing can listen on `port` of `host`; undefined when it is free, or when `host` is not an address of
 * this machine.
 */
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
  return `port ${port} cannot be reserved (${reasonOf(thrown)})`;
}
