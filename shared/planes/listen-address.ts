import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

export interface ListenAddress {
  readonly bind: string;
  readonly advertise: string;
}

const WILDCARDS: Readonly<Record<string, string>> = { auto: '0.0.0.0', '0.0.0.0': '0.0.0.0', '::': '::' };

/**
 * Where to listen and what to advertise for a configured `host` (`DYN_TCP_RPC_HOST`, `DYN_EVENT_PLANE_HOST`): `auto` and the
 * wildcard addresses listen everywhere and advertise the first IPv4 address that others can reach, or 127.0.0.1 on a machine
 * without a network. A link-local address (containers on AWS have one for their metadata) reaches nobody else.
 */
export function listenAddress(
  host: string,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): ListenAddress {
  const bind = WILDCARDS[host];
  if (bind === undefined) return { bind: host, advertise: host };
  const all = Object.values(interfaces).flatMap((addresses) => addresses ?? []);
  const reachable = all.find((address) => isReachable(address));
  return { bind, advertise: reachable?.address ?? '127.0.0.1' };
}

function isReachable({ family, internal, address }: NetworkInterfaceInfo): boolean {
  return family === 'IPv4' && !internal && !address.startsWith('169.254.');
}

/** `host:port` with IPv6 addresses in brackets. */
export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
