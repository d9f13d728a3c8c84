import { type Mutation, ofAnswer, ofBytes } from './edit.ts';

const isStream = (head: string): boolean => /\r\ncontent-type: text\/event-stream/i.test(head);
const isChunked = (head: string): boolean => /\r\ntransfer-encoding: chunked/i.test(head);

/** Faults of HTTP and of event streams, made in the bytes. */
export const FRAMING: readonly Mutation[] = [
  ofBytes('chunked terminator missing', (payload, head) =>
    isChunked(head) ? payload.replace(/0\r\n\r\n$/, '') : undefined,
  ),
  ofBytes('bytes behind the last chunk', (payload, head) => (isChunked(head) ? `${payload}x` : undefined)),
  ofBytes('last byte of the answer missing', (payload, head) =>
    !isChunked(head) && payload.length > 0 ? payload.slice(0, -1) : undefined,
  ),
  ofStream('last blank line of SSE missing', (text) => text.replace(/\n\n$/, '\n')),
  ofStream('stray id line', (text) => text.replace('data: ', 'id: 1\ndata: ')),
  ofStream('stray retry line', (text) => `retry: 100\n\n${text}`),
  ofStream('carriage returns in an event stream', (text) => text.replaceAll('\n', '\r\n')),
  ofStream('data lines without a space', (text) => text.replaceAll('data: ', 'data:')),
  ofStream('two data lines in one block', (text) => text.replace(/(data: [^\n]*)\n/, '$1\n$1\n')),
  ofStream('event names in streams without them', (text) =>
    text.replaceAll('\n\ndata: ', '\n\nevent: message\ndata: '),
  ),
  ofStream('event names missing', (text) => text.replaceAll(/event: \w+(\.\w+)+\n|event: \w+\n(?=data: )/g, '')),
  ofAnswer('content-type changed', ({ headers }) => changeHeader(headers, 'content-type', 'text/html')),
  ofAnswer('content-type missing', ({ headers }) => dropHeader(headers, 'content-type')),
  ofAnswer('cache-control missing', ({ headers }) => dropHeader(headers, 'cache-control')),
  ofAnswer('retry-after missing', ({ headers }) => dropHeader(headers, 'retry-after')),
  ofAnswer('retry-after added', ({ headers }) => addHeader(headers, 'retry-after', '7')),
  ofAnswer('allow missing', ({ headers }) => dropHeader(headers, 'allow')),
  ofAnswer('x-request-id of another request', ({ headers }, { row }) => {
    const isNamed = row.request.headers?.some(([name]) => name === 'x-request-id') === true;
    return isNamed && changeHeader(headers, 'x-request-id', '11111111-1111-4111-8111-111111111111');
  }),
  // An answer to HEAD may lack it.
  ofAnswer(
    'length missing',
    ({ headers }, { row }) => row.request.method !== 'HEAD' && dropHeader(headers, 'content-length'),
  ),
  {
    name: 'a body in an answer to HEAD',
    apply: (exchange) =>
      exchange.row.request.method === 'HEAD'
        ? { ...exchange, bytes: Buffer.concat([exchange.bytes, Buffer.from('{}')]) }
        : undefined,
  },
];

/** Makes a mutation of the text of an event stream, which then goes out as one chunk. */
function ofStream(name: string, edit: (text: string) => string): Mutation {
  return ofBytes(name, (payload, head) => {
    if (!isStream(head) || !isChunked(head)) return undefined;
    const text = unchunk(payload);
    const edited = edit(text);
    return edited === text ? undefined : `${edited.length.toString(16)}\r\n${edited}\r\n0\r\n\r\n`;
  });
}

function unchunk(payload: string): string {
  let text = '';
  for (let at = 0; at < payload.length; ) {
    const lineEnd = payload.indexOf('\r\n', at);
    const size = Number.parseInt(payload.slice(at, lineEnd), 16);
    text += payload.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 2 + size + 2;
  }
  return text;
}

function changeHeader(headers: [string, string][], name: string, value: string): boolean {
  const header = headers.find(([known]) => known === name);
  if (header === undefined) return false;
  header[1] = value;
  return true;
}

function addHeader(headers: [string, string][], name: string, value: string): boolean {
  if (headers.some(([known]) => known === name)) return false;
  headers.push([name, value]);
  return true;
}

function dropHeader(headers: [string, string][], name: string): boolean {
  const at = headers.findIndex(([known]) => known === name);
  if (at >= 0) headers.splice(at, 1);
  return at >= 0;
}
