import { isIP } from 'node:net';
import { isInternalAddress } from './internal-addresses.ts';

/** Which media a request may name, and what fetching one may cost. */
export interface MediaPolicy {
  /** Hosts that may be fetched from; `*.example.com` means every host below it. Undefined = every public host. */
  readonly allowHosts: readonly string[] | undefined;
  /** Private, loopback and link-local addresses may be fetched from as well. */
  readonly allowsInternal: boolean;
  /** Folder below which `file:` URLs may be read. Undefined = none may. */
  readonly localFolder: string | undefined;
  readonly fileBytesMax: number;
  /** Of the decoded content of a `data:` URL. */
  readonly dataUrlBytesMax: number;
  /** Of all media of one request together. */
  readonly requestBytesMax: number;
  readonly connectTimeoutMs: number;
  /** From the first byte sent to the last one read, redirects included. */
  readonly timeoutMs: number;
  /** How long a connection waits for the next fetch from its host. */
  readonly keepAliveMs: number;
}

const MIB = 1024 * 1024;

/**
 * The policy with its defaults: every public host, no local file, 100 MiB a file, 32 MiB inline, 256 MiB
 * a request, 5 s to connect, 30 s in all,
 * connections kept for 15 s.
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

/** What is wrong with the URL of a medium, in words for the client; undefined = it may be fetched. Resolves no name. */
export function checkMediaUrl(text: string, policy: MediaPolicy): string | undefined {
  if (/^data:/i.test(text)) return checkDataUrl(text, policy);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return 'is not a URL';
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return `has the scheme ${url.protocol}; allowed: https:, http:, data:`;
  }
  if (url.username !== '' || url.password !== '') return 'holds a user name or password';
  return checkHost(hostOf(url), policy);
}

/** The host of a URL, an IPv6 address without its brackets. */
export function hostOf({ hostname }: URL): string {
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
    ? `holds about ${Math.round(bytes)} bytes inline; at most ${dataUrlBytesMax} are allowed`
    : undefined;
}
