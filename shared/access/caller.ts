import { isLoopback } from '../planes/request/index.ts';

/** What a request tells of who sent it. */
export interface Caller {
  /** Address at the other end of the socket; undefined where there is no socket. */
  readonly peer?: string | undefined;
  /** Value of a header by its lower-case name. */
  header(name: string): string | undefined;
}

/** Headers by which a proxy says that it speaks for somebody else. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

/**
 * Why a caller does not count as somebody at this machine, as a clause about the request; undefined = it does. The address
 * alone says too little: a proxy here speaks for others, and a browser here sends what any web page asks it to, which its
 * `Origin` tells, or its `Host` where the page has made its own name resolve to this machine.
 *
 * @example
 * const stranger = refuseStranger(exchange);
 * if (stranger !== undefined) throw new ServeError('insufficient_permissions', `... ${stranger}`);
 */
export function refuseStranger(caller: Caller): string | undefined {
  const { peer } = caller;
  if (peer === undefined || !isLoopback(peer)) return 'it does not come from this machine';
  const forwarded = FORWARDED.find((name) => caller.header(name) !== undefined);
  if (forwarded !== undefined) return `it comes through a proxy, as its ${forwarded} header says`;
  const host = caller.header('host');
  if (!namesThisMachine(host)) return 'its Host is not localhost, 127.0.0.1 or [::1]';
  const origin = caller.header('origin');
  const isOwnPage = origin === undefined || origin === `http://${host}` || origin === `https://${host}`;
  return isOwnPage ? undefined : 'its Origin is a web page of another place';
}

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
