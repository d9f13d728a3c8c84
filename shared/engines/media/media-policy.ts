import { BlockList, isIP, isIPv6 } from 'node:net';

/** Policy of the media that a request may name, and of the cost of fetching one. */
export interface MediaPolicy {
  /** Hosts to fetch from; `*.example.com` means every host below it. Undefined = every public host. */
  readonly allowHosts: readonly string[] | undefined;
  /** Whether private, loopback and link-local addresses are allowed too. */
  readonly allowsInternal: boolean;
  /** Folder below which `file:` URLs may be read. Undefined = no file may. */
  readonly localFolder: string | undefined;
  readonly fileBytesMax: number;
  /** Size limit of the decoded content of a `data:` URL. */
  readonly dataUrlBytesMax: number;
  /** Size limit of all media of one request together. */
  readonly requestBytesMax: number;
  readonly connectTimeoutMs: number;
  /** Limit from the first byte sent to the last one read, redirects included. */
  readonly timeoutMs: number;
  /** Time for which a connection is kept for the next fetch from its host. */
  readonly keepAliveMs: number;
}

const MIB = 1024 * 1024;

/**
 * Returns the policy with its defaults. It allows every public host, no local file, and 100 MiB per file, 32 MiB
 * inline, 256 MiB per request. A fetch has 5 s to connect and 30 s in total; connections are kept for 15 s.
 */
export function mediaPolicy(given: Partial<MediaPolicy> = {}): MediaPolicy {
  return {
    allowHosts: undefined,
    allowsInternal: false,
    localFolder: undefined,
    fileBytesMax: 100 * MIB,
    dataUrlBytesMax: 32 * MIB,
    requestBytesMax: 256 * MIB,
    connectTimeoutMs: 5000,
    timeoutMs: 30_000,
    keepAliveMs: 15_000,
    ...given,
  };
}

const LOCAL_NAMES = /^(localhost|.*\.(localhost|local|internal|localdomain|home\.arpa))$/;

/** Returns the fault of a medium's URL, in words for the client; undefined = it may be fetched. Resolves no name. */
export function checkMediaUrl(text: string, policy: MediaPolicy): string | undefined {
  if (/^data:/i.test(text)) return checkDataUrl(text, policy);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return 'is not a URL';
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return `has the scheme ${url.protocol}; allowed: https:, http:, data:`;
  }
  if (url.username !== '' || url.password !== '') return 'contains a user name or password';
  return checkHost(hostOf(url), policy);
}

/** Returns the host of a URL, an IPv6 address without its brackets. */
function hostOf({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname.replace(/\.$/, '');
}

function checkHost(host: string, { allowHosts, allowsInternal }: MediaPolicy): string | undefined {
  if (allowHosts !== undefined && !allowHosts.some((allowed) => matches(host, allowed.toLowerCase()))) {
    return 'is on a host that is not one of those allowed';
  }
  const isInternal = isIP(host) === 0 ? LOCAL_NAMES.test(host) : isInternalAddress(host);
  return isInternal && !allowsInternal ? 'is on an internal address' : undefined;
}

function matches(host: string, allowed: string): boolean {
  return allowed.startsWith('*') ? host.endsWith(allowed.slice(1)) : host === allowed;
}

function checkDataUrl(text: string, { dataUrlBytesMax }: MediaPolicy): string | undefined {
  const comma = text.indexOf(',');
  if (comma < 0) return 'is a data: URL without content';
  const isBase64 = /;base64$/i.test(text.slice(0, comma));
  const bytes = (text.length - comma - 1) * (isBase64 ? 0.75 : 1);
  return bytes > dataUrlBytesMax
    ? `has about ${Math.round(bytes)} bytes inline; at most ${dataUrlBytesMax} are allowed`
    : undefined;
}

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
  ['2002::', 16], // 6to4, for the same reason
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

/**
 * Returns whether an IP address lies in a network that only internal hosts can reach. IPv4 inside IPv6 counts as IPv4.
 */
export function isInternalAddress(address: string): boolean {
  return internal.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}
