import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '../../../shared/clock/index.ts';

/** Where a process shows the kubelet that it lives. */
export interface KubeletPlace {
  readonly port: number;
  readonly pod: string;
}

/**
 * The kubelet of the pods of a suite. Each process keeps a connection to it and says something on a timer of its own
 * clock. A process that falls silent for its time to live fails its readiness probe; one whose connection ends has
 * ended.
 */
export class Kubelet {
  readonly #server: Server;
  readonly #setReady: (pod: string, isReady: boolean) => Promise<void>;
  readonly #sockets = new Set<Socket>();

  private constructor(setReady: (pod: string, isReady: boolean) => Promise<void>) {
    this.#setReady = setReady;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** @param setReady changes the readiness of a pod in the cluster */
  static async start(setReady: (pod: string, isReady: boolean) => Promise<void>): Promise<Kubelet> {
    const kubelet = new Kubelet(setReady);
    await new Promise<void>((resolve) => kubelet.#server.listen(0, '127.0.0.1', resolve));
    return kubelet;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let pod: string | undefined;
    let ttlMs = 0;
    let isReady = false;
    let silence: NodeJS.Timeout | undefined;
    const set = (next: boolean): void => {
      if (pod === undefined || isReady === next) return;
      isReady = next;
      // A test that has ended takes the cluster with it.
      this.#setReady(pod, next).then(
        () => next && socket.write('ready\n'),
        () => socket.destroy(),
      );
    };
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      const [, name, ttl] = /^(\S+) (\d+)\n/.exec(text) ?? [];
      if (pod === undefined) [pod, ttlMs] = [name, Number(ttl)];
      clearTimeout(silence);
      silence = setTimeout(() => set(false), ttlMs);
      set(true);
    });
    socket.on('error', () => {}); // a killed process; `close` follows
    socket.on('close', () => {
      clearTimeout(silence);
      this.#sockets.delete(socket);
      set(false);
    });
  }
}

/** Shows the kubelet that this process lives, from now on. Resolves once its pod is ready. */
export async function reportTo({ port, pod }: KubeletPlace, ttlMs: number, clock: Clock): Promise<{ close(): void }> {
  const socket = connect(port, '127.0.0.1');
  socket.write(`${pod} ${ttlMs}\n`);
  const beat = clock.every(ttlMs / 4, () => socket.write('alive\n'));
  socket.on('error', () => beat.cancel()); // the suite has ended
  await once(socket, 'data');
  socket.unref();
  return {
    close: () => {
      beat.cancel();
      socket.destroy();
    },
  };
}
