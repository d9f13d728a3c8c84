import type { IncomingMessage } from 'node:http';

/**
 * Returns why a proxy in front may read a request that Node has parsed differently, as a sentence. Returns undefined if
 * every reader agrees. The caller must close the connection of a refused request, because its end is in doubt.
 */
export function ambiguousFraming({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) {
    if (httpVersion !== '1.1') return `HTTP/${httpVersion} has no Transfer-Encoding`;
    if (coding.trim().toLowerCase() !== 'chunked') return 'The only Transfer-Encoding that is read is `chunked`, once';
    if (headers['content-length'] !== undefined) return 'A request has Transfer-Encoding or Content-Length, not both';
  }
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!; // names and values in turn
    if (name.length === 4 && name.toLowerCase() === 'host' && ++hosts > 1) return 'A request has one Host header';
  }
  return undefined;
}

/** Scheme and host, without a user, followed by a path, a query or nothing. */
const ABSOLUTE_FORM = /^https?:\/\/([^/?#@\\]+)((?:[/?].*)?)$/i;

/**
 * Replaces a target in absolute form by its path, and the request's `Host` by its host. Like a proxy, it then ignores
 * what the `Host` header said. Returns why the target is invalid, as a sentence, or undefined if it is valid.
 */
export function adoptTarget(request: Pick<IncomingMessage, 'url' | 'headers' | 'httpVersion'>): string | undefined {
  const { url = '', headers, httpVersion } = request;
  if (url.startsWith('/')) return undefined;
  const [, host, path = ''] = ABSOLUTE_FORM.exec(url) ?? [];
  if (host === undefined) return 'The target of a request is a path, or an http or https URL with a host';
  if (headers.host === undefined && httpVersion !== '1.0') return 'A request has a Host header';
  headers.host = host;
  request.url = path.startsWith('/') ? path : `/${path}`;
  return undefined;
}
