import { isLoopback } from '../planes/request/index.ts';

/** The name or address in a `Host` header: lower case, without the port; an IPv6 address keeps its brackets. */
export function hostNameOf(header: string): string {
  return header.replace(/:\d*$/, '').toLowerCase();
}

/**
 * Whether a `Host` header means the machine that gets it, whoever looks the name up: a web page that made its own name resolve
 * to this machine still sends that name. Any port will do, since tunnels have their own; a request without the header comes
 * from no browser.
 */
export function namesThisMachine(header: string | undefined): boolean {
  return header === undefined || isLoopback(hostNameOf(header));
}
