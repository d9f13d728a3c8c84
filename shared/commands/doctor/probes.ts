import { access, constants } from 'node:fs/promises';
import { connect } from 'node:net';
import { Semaphore } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** Looks at the machine and the network. Each method returns what is wrong, or undefined. */
export interface Probes {
  /** Opens and closes a TCP connection to `host:port`. */
  address(address: string): Promise<string | undefined>;
  /** Reads the beginning of what a URL of HTTP answers. */
  url(url: string): Promise<string | undefined>;
  file(path: string): Promise<string | undefined>;
}

/** Largest number of addresses and files that are tried; a fleet of thousands is judged by as many. */
export const TRIED_MAX = 256;

const ANSWER_MS_MAX = 3_000;
/** Probes at a time. */
const AT_ONCE = 32;

/** Returns probes of this machine. Each ends after three seconds at most. */
export function machineProbes(): Probes {
  const room = new Semaphore(AT_ONCE);
  return {
    address: (address) => room.run(() => connectTo(address)),
    url: (url) => room.run(() => ask(url)),
    file: (path) =>
      access(path, constants.R_OK).then(
        () => undefined,
        () => 'not on this machine',
      ),
  };
}

async function connectTo(address: string): Promise<string | undefined> {
  const url = `tcp://${address}`;
  const { hostname, port } = new URL(URL.canParse(url) ? url : 'tcp://');
  if (port === '') return 'the address is not HOST:PORT'; // workers wrote it, so it may be any text
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), timeout: ANSWER_MS_MAX });
    const end = (reason: string | undefined): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`no answer within ${ANSWER_MS_MAX / 1000} s`));
    socket.once('error', (error) => end(reasonOf(error)));
  });
}

async function ask(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX), redirect: 'error' });
    await response.body?.cancel();
    return response.ok ? undefined : `status ${response.status}`;
  } catch (thrown) {
    return reasonOf((thrown as Error).cause ?? thrown);
  }
}
