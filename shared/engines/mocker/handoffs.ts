import { connect, createServer, type Socket } from 'node:net';
import { type Clock, systemClock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** Decode engine that requests the blocks of one prompt, as the engine with the blocks sees it. */
export interface HandoffCaller {
  /** Reports that the blocks are available and may be fetched. */
  ready(): void;
  /** Reports that the blocks are not available, and will not be. */
  refuse(reason: string): void;
}

/** Side of a prefill engine that answers requests for blocks. */
export interface HandoffDesk {
  /**
   * Handles a request for `key`; with `mayWait` it waits until the blocks are available. The returned function is
   * called once: the blocks were fetched, or the caller has gone.
   */
  asked(key: string, mayWait: boolean, caller: HandoffCaller): () => void;
}

/** Listener of a prefill engine for requests for blocks. */
export interface HandoffListener {
  /** Host and port by which decode engines reach it. */
  readonly host: string;
  readonly port: number;
  /** Closes the listener and drops the remaining callers. */
  close(): Promise<void>;
}

export interface HandoffRequest {
  readonly host: string;
  readonly port: number;
  readonly key: string;
  /** Whether prefill and decode run at the same time, so that the blocks may come later. */
  readonly mayWait: boolean;
}

/** Request for blocks, as the decode engine sees it. */
interface HandoffFetch {
  /** Ends the request: the blocks were fetched or are no longer wanted, so their holder may free them. Idempotent. */
  close(): void;
}

/** Network that carries only the information which engine holds which blocks: a mock engine has no contents to move. */
export interface HandoffNetwork {
  /** @param port 0 = any */
  listen(port: number, desk: HandoffDesk): Promise<HandoffListener>;
  /**
   * Fetches blocks. Calls `ready` or `failed`, on a later turn, unless it is closed before; calls `failed` after
   * `ready` when the holder of the blocks goes away before the fetch is closed.
   */
  fetch(request: HandoffRequest, ready: () => void, failed: (reason: string) => void): HandoffFetch;
}

interface TcpHandoffOptions {
  /** Address to listen on. */
  readonly bind: string;
  /** The same address as others reach it. */
  readonly advertise: string;
  /** @default systemClock */
  readonly clock?: Clock;
  /** Number of callers at a time. @default far more than an engine has prompts in its cache */
  readonly callersMax?: number;
}

/** Longest line; keys are request ids and rooms. */
const LINE_BYTES_MAX = 4096;
const CONNECT_MS_MAX = 5000;
/** Time within which a caller must send its line. */
const LINE_MS_MAX = 10_000;
const CALLERS_MAX = 4096;

/**
 * Creates a network with one TCP connection for each prompt. The decode engine writes `wait KEY` or `now KEY`, reads
 * `ready` or `no REASON`, and closes the connection when it has the blocks or no longer wants them. A broken connection
 * means the same.
 */
export function tcpHandoffs(options: TcpHandoffOptions): HandoffNetwork {
  return {
    listen: (port, desk) => listen(options, port, desk),
    fetch,
  };
}

async function listen(
  { bind, advertise, clock = systemClock, callersMax = CALLERS_MAX }: TcpHandoffOptions,
  port: number,
  desk: HandoffDesk,
): Promise<HandoffListener> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    serveCaller(socket, desk, clock);
  });
  server.maxConnections = callersMax;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, bind, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.unref();
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address');
  return {
    host: advertise,
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function serveCaller(socket: Socket, desk: HandoffDesk, clock: Clock): void {
  let over = (): void => {};
  socket.on('error', () => {}); // `close` follows and handles it
  const late = clock.after(LINE_MS_MAX, () => socket.destroy());
  socket.once('close', () => {
    late.cancel();
    over();
  });
  readLine(socket, (line) => {
    late.cancel();
    const match = /^(wait|now) (.+)$/.exec(line);
    if (match === null) return socket.destroy();
    const [, word, key = ''] = match;
    over = desk.asked(key, word === 'wait', {
      ready: () => void socket.write('ready\n'),
      refuse: (reason) => void socket.end(`no ${reason}\n`),
    });
  });
}

function fetch(
  { host, port, key, mayWait }: HandoffRequest,
  ready: () => void,
  failed: (reason: string) => void,
): HandoffFetch {
  const socket = connect({ host, port, noDelay: true });
  let isOver = false;
  const fail = (reason: string): void => {
    if (isOver) return;
    isOver = true;
    failed(reason);
  };
  socket.setTimeout(CONNECT_MS_MAX, () => socket.destroy(new Error(`no connection within ${CONNECT_MS_MAX} ms`)));
  socket.once('connect', () => {
    socket.setTimeout(0);
    socket.write(`${mayWait ? 'wait' : 'now'} ${key}\n`);
  });
  socket.once('error', (error) => fail(reasonOf(error)));
  socket.once('close', () => fail('the connection was closed')); // also while the blocks move: their holder has gone
  readLine(socket, (line) => {
    if (isOver) return;
    if (line === 'ready') ready();
    else fail(line);
  });
  return {
    close: () => {
      isOver = true;
      socket.destroy();
    },
  };
}

/** Calls `onLine` once, with the first line. */
function readLine(socket: Socket, onLine: (line: string) => void): void {
  let text = '';
  const onData = (chunk: Buffer): void => {
    text += chunk.toString('utf8');
    const end = text.indexOf('\n');
    if (end < 0) {
      if (text.length > LINE_BYTES_MAX) socket.destroy();
      return;
    }
    socket.off('data', onData);
    socket.resume();
    onLine(text.slice(0, end));
  };
  socket.on('data', onData);
}
