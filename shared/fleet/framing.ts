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
