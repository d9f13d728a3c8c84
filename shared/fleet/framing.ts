import type { IncomingMessage } from 'node:http';

/**
 * Why a request that Node has parsed is read in one way here and perhaps in another by a proxy in front, as a sentence; undefined
 * where all read it alike. Its connection must be closed: where it ends is in doubt.
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

/** Scheme and host, without a user, before a path, a query or nothing. */
const ABSOLUTE_FORM = /^https?:\/\/([^/?#@\\]+)((?:[/?].*)?)$/i;

/**
 * Makes of a target in absolute form the path that it names, and of its host the request's `Host`: whatever that header says is
 * not to be read then, as proxies do not. Returns why a target is none, as a sentence; undefined where all is well.
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
