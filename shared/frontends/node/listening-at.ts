import type { AddressInfo } from 'node:net';

/** Where a server can be reached, and what it listens on. */
export interface ListeningAt {
  /** As clients on this machine reach it, without a trailing slash. */
  readonly url: string;
  /** Of the socket, as the system says it: `127.0.0.1:8000`, `0.0.0.0:8000`, `[::]:8000`. */
  readonly address: string;
}

/** Every address of the machine, and the one of them that any machine has. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' };

/**
 * @param host as it was asked for: a name stays in the URL, since a certificate may be for it
 * @param bound what became of it
 */
export function listeningAt(scheme: 'http' | 'https', host: string, bound: AddressInfo): ListeningAt {
  const loopback = LOOPBACK[bound.address];
  return {
    url: `${scheme}://${loopback ?? bracketed(host)}:${bound.port}`,
    address: `${bracketed(bound.address)}:${bound.port}`,
  };
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
