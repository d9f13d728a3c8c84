import { once } from 'node:events';
import { BlockList, isIP, type Server } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { reachableAddresses } from '../concurrency/index.ts';
import type { PortRange } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';

export interface ListenAddress {
  readonly bind: string;
  readonly advertise: string;
}

const WILDCARDS: Readonly<Record<string, string>> = { auto: '0.0.0.0', '0.0.0.0': '0.0.0.0', '::': '::' };

/** A listener that a process is about to open for other processes of its fleet. */
export interface FleetListener {
  /** Name of the listener for its operator. @example 'the request plane' */
  readonly name: string;
  /** Address to bind: an IP address or a host name, without a port. */
  readonly address: string;
  /** Proof that callers give before they are answered; undefined = none. */
  readonly protectedBy: 'token' | 'mTLS' | undefined;
  /** Whether the operator chose to accept any caller (`STATOR_PLANE_OPEN`). */
  readonly open: boolean;
  /**
   * Settings that help instead, best first, each as a clause. @example ['set STATOR_PLANE_TOKEN', 'set
   * DYN_TCP_RPC_HOST=127.0.0.1']
   */
  readonly remedies: readonly string[];
}

/**
 * Returns why `listener` must not be opened, as one line that says what to set; undefined = it may. A listener that
 * other machines can reach must know who calls, unless its operator trusts everyone who reaches it.
 *
 * @example
 * const refusal = refuseOpenListener({ name: 'the request plane', address: bind, protectedBy, open, remedies });
 * if (refusal !== undefined) throw new Error(refusal);
 */
export function refuseOpenListener({ name, address, protectedBy, open, remedies }: FleetListener): string | undefined {
  if (open || protectedBy !== undefined || isLoopback(address)) return undefined;
  const choices = [...remedies, 'set STATOR_PLANE_OPEN=on if only trusted machines reach it'];
  return `${name} would listen on ${address} for anybody who reaches it: ${choices.join(', or ')}`;
}

/** Loopback as IPv6 may spell it, including mapped addresses. */
const LOOPBACK_IPV6 = new BlockList();
LOOPBACK_IPV6.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK_IPV6.addAddress('::1', 'ipv6');

/**
 * Whether only this machine reaches `host`: 127.0.0.0/8, ::1 (also mapped, also in brackets) and `localhost`. Any other
 * name may resolve to anything, and so counts as reachable. It is called for each request, nearly always with an IPv4
 * address or `localhost`, which need no list.
 */
export function isLoopback(host: string): boolean {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  const family = isIP(bare);
  if (family === 0) return bare.toLowerCase() === 'localhost';
  return family === 4 ? bare.startsWith('127.') : LOOPBACK_IPV6.check(bare, 'ipv6');
}

/**
 * Returns where to listen and what to advertise for a configured `host` (`DYN_TCP_RPC_HOST`, `DYN_EVENT_PLANE_HOST`).
 * `auto` and the wildcard addresses listen everywhere and advertise the first IPv4 address that others can reach, or
 * 127.0.0.1 on a machine without a network. If a machine has only IPv6, `auto` and `::` use that.
 */
export function listenAddress(
  host: string,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): ListenAddress {
  const bind = WILDCARDS[host];
  if (bind === undefined) return { bind: host, advertise: host };
  const { ipv4, ipv6 } = reachableAddresses(interfaces);
  if (host !== '0.0.0.0' && ipv4 === undefined && ipv6 !== undefined) return { bind: '::', advertise: ipv6 };
  return { bind, advertise: ipv4 ?? '127.0.0.1' };
}

/** Codes of the system for an address that this machine does not have, or for a name without an address. */
const FAULTS_OF_HOST = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EAI_AGAIN', 'EINVAL', 'ENOTFOUND']);

/** Returns the setting that a user must change because a listener of the request plane cannot bind its address. */
export function settingOfListener(failure: unknown): string {
  const { code = '' } = failure as NodeJS.ErrnoException;
  return FAULTS_OF_HOST.has(code) ? 'DYN_TCP_RPC_HOST' : 'DYN_TCP_RPC_PORT';
}

/** Listens for requests on the first free port of `ports`. Rejects with an error that names the setting to change. */
export async function listenForRequests(server: Server, ports: PortRange, host: string): Promise<void> {
  try {
    await listenInRange(server, ports, host);
  } catch (cause) {
    const where = formatHostPort(host, ports.first);
    const remedy = `set ${settingOfListener(cause)}`;
    throw new Error(`the request plane cannot listen on ${where} (${reasonOf(cause)}): ${remedy}`, { cause });
  }
}

/** Returns `host:port`, with IPv6 addresses in brackets. */
export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Listens on the first free port of `ports`, so that the processes of a machine share a range that a firewall can name.
 * Rejects with the system's error, or with one line that names the range if all of it is taken.
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
