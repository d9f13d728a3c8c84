import { BlockList, isIPv6 } from 'node:net';

/** Networks that are not the public internet: RFC 6890 and its registry, for IPv4 and IPv6. */
const INTERNAL_NETWORKS: readonly (readonly [network: string, prefixBits: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10], // carrier-grade NAT
  ['127.0.0.0', 8],
  ['169.254.0.0', 16], // link-local, and the metadata service of clouds
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, and broadcast
  ['::', 96], // unspecified, loopback, and IPv4 in the old compatible form
  ['::ffff:0:0:0', 96], // IPv4 translated
  ['64:ff9b::', 96], // NAT64: the IPv4 address inside may be internal
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16], // 6to4, as NAT64
  ['3fff::', 20],
  ['5f00::', 16], // segment routing
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];

const internal = new BlockList();
for (const [network, prefixBits] of INTERNAL_NETWORKS) {
  internal.addSubnet(network, prefixBits, isIPv6(network) ? 'ipv6' : 'ipv4');
}

/** Whether an IP address lies in a network that only hosts inside can reach. IPv4 inside IPv6 counts as IPv4. */
export function isInternalAddress(address: string): boolean {
  return internal.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}
