import type { HostileValues } from './hostile-values.ts';
import { BAD_CODINGS, BAD_LENGTHS, BAD_SIZES, BAD_UTF8, LONG, SPELLINGS } from './http-values.ts';

/** The routes of a listener that honest clients use, too. */
export interface WirePlace {
  /** Value of the `host` header. */
  readonly host: string;
  /** A path whose answer has a body, and which changes nothing. */
  readonly get: string;
  /** A request with a JSON body that contains `@@` within a string. */
  readonly post?: { readonly method: string; readonly path: string; readonly body: string };
}

/**
 * Required outcome of a connection:
 *
 * | | |
 * |---|---|
 * | refused | its last answer is a 4xx, and it ends, whatever the client does |
 * | ended | it has one answer, and it ends: the fault comes after the part that some listeners check |
 * | declined | its last answer is a 400 |
 * | asked | its answers are those of an honest client |
 * | any | it ends, or gets answers without a 5xx except 501 |
 * | silent | it has sent nothing yet that a server can answer |
 * | stalled | its body never ends: the server serves others meanwhile, and forgets it once its client is gone |
 */
export type Verdict = 'refused' | 'ended' | 'declined' | 'asked' | 'any' | 'silent' | 'stalled';

/** Bytes that a client sends on a connection of its own. */
export interface WireCase {
  readonly kind: string;
  readonly pieces: readonly Buffer[];
  readonly verdict: Verdict;
  /** Number of honest requests before the hostile one. */
  readonly before?: number;
}

interface Built {
  readonly text: string | Buffer;
  readonly verdict: Verdict;
}

type Kind = (values: HostileValues, place: WirePlace) => Built;

const refused = (text: string): Built => ({ text, verdict: 'refused' });
const ended = (text: string): Built => ({ text, verdict: 'ended' });
const any = (text: string | Buffer): Built => ({ text, verdict: 'any' });

interface Parts {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  readonly lines?: readonly string[];
  readonly body?: string;
}

/** Returns a request whose first header is its host. */
function request({ host, get }: WirePlace, parts: Parts = {}): string {
  const { method = 'GET', target = get, version = '1.1', lines = [], body = '' } = parts;
  return `${[`${method} ${target} HTTP/${version}`, `host: ${host}`, ...lines].join('\r\n')}\r\n\r\n${body}`;
}

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

/** Returns a request with a body, framed by `lines`. It uses the listener's own route if there is one. */
function posted(place: WirePlace, lines: readonly string[], body: string, version = '1.1'): string {
  const { method = 'POST', path = place.get } = place.post ?? {};
  return request(place, { method, target: path, version, lines: ['content-type: application/json', ...lines], body });
}

/** Returns a body that may take more than one read. */
const longBody = (values: HostileValues, place: WirePlace): string =>
  (place.post?.body ?? '{}').replace('@@', 'x'.repeat(values.one([0, 100, 70_000, 300_000])));

const CHUNKED = 'transfer-encoding: chunked';
const KINDS: Readonly<Record<string, Kind>> = {
  'two hosts': (values, place) =>
    refused(
      request(place, {
        lines: [
          ...(values.chance(0.5) ? ['x: y'] : []),
          `${values.one(['host', 'Host', 'HOST'])}: ${values.one([place.host, 'evil.example', ''])}`,
        ],
      }),
    ),
  'chunks in HTTP/1.0': (values, place) =>
    refused(
      posted(
        place,
        [values.one([CHUNKED, 'Transfer-Encoding: CHUNKED', 'connection: keep-alive\r\ntransfer-encoding: chunked'])],
        '0\r\n\r\n',
        '1.0',
      ),
    ),
  'another coding': (values, place) =>
    refused(
      posted(
        place,
        [`${values.one(['transfer-encoding', 'Transfer-Encoding'])}: ${values.one(BAD_CODINGS)}`],
        '0\r\n\r\n',
      ),
    ),
  'codings on two lines': (values, place) =>
    refused(posted(place, [`transfer-encoding: ${values.one(['gzip', 'chunked', 'identity'])}`, CHUNKED], '0\r\n\r\n')),
  'a coding with a GET': (values, place) =>
    refused(request(place, { lines: [`transfer-encoding: ${values.one(BAD_CODINGS)}`] })),
  'a coding with odd spelling': (values, place) =>
    any(
      posted(
        place,
        [
          values.one([
            'Transfer-Encoding:chunked',
            'transfer-encoding: Chunked',
            'transfer-encoding:\tchunked',
            'transfer-encoding: chunked ',
            'transfer_encoding: chunked',
          ]),
        ],
        '0\r\n\r\n',
      ),
    ),
  'lengths and chunks': (values, place) => {
    const both = ['content-length: 5', CHUNKED];
    return refused(posted(place, values.chance(0.5) ? both : both.toReversed(), '0\r\n\r\n'));
  },
  'two lengths': (values, place) =>
    refused(
      posted(
        place,
        ['content-length: 5', `${values.one(['content-length', 'Content-Length'])}: ${values.one(['5', '6', '0'])}`],
        'hello',
      ),
    ),
  'a length that is not valid': (values, place) =>
    refused(posted(place, [`content-length: ${values.one(BAD_LENGTHS)}`], 'hello')),
  'a chunk size that is not a number': (values, place) =>
    ended(posted(place, [CHUNKED], `${values.one(BAD_SIZES)}\r\nhello\r\n0\r\n\r\n`)),
  'a chunk that ends elsewhere': (values, place) =>
    ended(posted(place, [CHUNKED], `5\r\n${values.one(['hel', 'hello!', 'hello\n', 'hello\r'])}X\r\n0\r\n\r\n`)),
  'lines of chunks that end oddly': (values, place) =>
    any(
      posted(
        place,
        [CHUNKED],
        values.one([
          '5\nhello\r\n0\r\n\r\n',
          '5\r\nhello\n0\r\n\r\n',
          '5\r\nhello\r\n0\n\n',
          '5\r\rhello\r\n0\r\n\r\n',
        ]),
      ),
    ),
  'what chunks carry beside': (values, place) => {
    const extension = values.one([
      ';a=b',
      ';a="b"',
      `;${'x'.repeat(values.one([10, 20_000, 200_000]))}`,
      ';\n',
      ';a=\r',
    ]);
    return any(posted(place, [CHUNKED], `2${extension}\r\n{}\r\n0\r\n\r\n`));
  },
  trailers: (values, place) => {
    const trailer = values.one([
      'host: evil.example',
      'content-length: 9',
      CHUNKED,
      'x: y',
      `x: ${'a'.repeat(LONG(values))}`,
      `${'a: b\r\n'.repeat(3000)}c: d`,
      ': v',
      'x\0: y',
    ]);
    return any(posted(place, [CHUNKED], `${chunk('{}')}0\r\n${trailer}\r\n\r\n`));
  },
  'a header line that is not one': (values, place) =>
    refused(
      request(place, {
        lines: [
          values.one([
            'x : y',
            'x',
            ': v',
            'x y: z',
            'x: a\0b',
            'x\0: a',
            'x: a\r\n b',
            'x: a\r\n\tb',
            'x: a\rb',
            'h\xe9: v',
            '(x): y',
            'x: \x01',
          ]),
        ],
      }),
    ),
  'lines that end without a return': (_values, { get, host }) => any(`GET ${get} HTTP/1.1\nhost: ${host}\n\n`),
  'white space before the first header': (values, { get, host }) =>
    refused(`GET ${get} HTTP/1.1\r\n${values.one([' ', '\t'])}host: ${host}\r\n\r\n`),
  'lines before the request': (values, place) =>
    any(values.one(['\r\n', '\n', ' ', '\0', '\r\n\r\n\r\n']) + request(place)),
  'no host': (_values, { get }) => refused(`GET ${get} HTTP/1.1\r\n\r\n`),
  'a host that is not a name': (values, { get }) =>
    any(
      `GET ${get} HTTP/1.1\r\nhost: ${values.one(['', 'a b', '[', 'u@h', 'h/..', 'h:99999', 'h:x', '\x80', 'evil.example'])}\r\nconnection: close\r\n\r\n`,
    ),
  'a target of another form': (values, place) => {
    const { host, get } = place;
    const target = values.one([
      '*',
      `http://${host}`,
      `http://u@${host}${get}`,
      `ftp://${host}${get}`,
      `http:///${get}`,
      `http:${get}`,
      `//${host}${get}`,
      `http://[::${get}`,
      host,
      `http://evil.example${get}`,
      `http://${host}:0${get}`,
      '?',
      '#',
      'x',
      '/\u00e9',
      '/\x7f',
      '/ x',
    ]);
    return any(request(place, { target, method: values.one(['GET', 'OPTIONS', 'GET']), lines: ['connection: close'] }));
  },
  'a target in absolute form': (_values, place) => ({
    text: request(place, { target: `http://${place.host}${place.get}` }),
    verdict: 'asked',
  }),
  'a target that is long': (values, place) =>
    any(request(place, { target: `${place.get}?${'x'.repeat(LONG(values))}` })),
  'a head that is long': (values, place) => any(request(place, { lines: [`x: ${'a'.repeat(LONG(values))}`] })),
  'many header lines': (values, place) =>
    any(request(place, { lines: Array.from({ length: values.one([500, 5000, 30_000]) }, (_, at) => `x${at}: y`) })),
  'an expectation': (values, place) => {
    const expectation = values.one(['100-continue', '100-Continue', 'tea', '', '100-continue, 100-continue', '200']);
    const body = place.post?.body ?? '{}';
    return any(posted(place, [`expect: ${expectation}`, `content-length: ${body.length}`], body));
  },
  'an upgrade': (values, place) => {
    const upgrade = values.one(['websocket', 'h2c', 'TLS/1.0', 'x', 'websocket, h2c', '']);
    const more = values.one([
      [],
      ['sec-websocket-version: 13'],
      ['sec-websocket-version: 7', 'sec-websocket-key: x'],
      ['http2-settings: AAMAAABkAAQAAP__'],
      ['content-length: 4'],
    ]);
    const lines = ['connection: upgrade', `upgrade: ${upgrade}`, ...more];
    return any(
      request(place, {
        method: values.one(['GET', 'GET', 'POST', 'PUT']),
        lines,
        body: values.chance(0.5) ? values.bytes(60).toString('latin1') : '',
      }),
    );
  },
  'a method': (values, place) =>
    any(
      request(place, {
        method: values.one([
          'BREW',
          'get',
          'CONNECT',
          'TRACE',
          'PRI',
          'M-SEARCH',
          'X'.repeat(5000),
          'GE T',
          'G\0T',
          'QUERY',
          'OPTIONS',
          'HEAD',
          'DELETE',
          'PROPFIND',
        ]),
        lines: ['connection: close'],
      }),
    ),
  'a version': (values, place) =>
    any(request(place, { version: values.one(['0.9', '1.2', '2.0', '3', '1.', '1.1 ', '11', 'x', '']) })),
  'HTTP/0.9': (_values, { get }) => any(`GET ${get}\r\n\r\n`),
  'no HTTP': (values) => {
    const noise = values.one([
      Buffer.from('NONSENSE\r\n\r\n'),
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
      Buffer.from('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'latin1'),
      Buffer.concat([Buffer.of(0), values.bytes(200)]),
    ]);
    return { text: noise, verdict: 'refused' };
  },
  'a path': (values, place) =>
    any(
      request(place, {
        method: values.one(['GET', 'GET', 'POST', 'DELETE']),
        target: values.one(SPELLINGS)(values.chance(0.5) ? place.get : (place.post?.path ?? place.get)),
        lines: ['connection: close'],
      }),
    ),
  'a body that is not UTF-8': (values, place) => {
    if (place.post === undefined) return any(request(place));
    const bad = values.one(BAD_UTF8);
    const body = values.chance(0.1)
      ? Buffer.from(place.post.body, 'utf16le').toString('latin1')
      : place.post.body.replace('@@', values.one([bad, `a${bad}`, `${bad}z`, `\xc3\xa9${bad}`]));
    return { text: posted(place, [`content-length: ${body.length}`], body), verdict: 'declined' };
  },
  'a body that lies about itself': (values, place) =>
    any(
      posted(
        place,
        [
          `content-encoding: ${values.one(['gzip', 'br', 'deflate', 'x', 'gzip, gzip', 'identity'])}`,
          'content-length: 20',
        ],
        values.bytes(40).toString('latin1').padEnd(20).slice(0, 20),
      ),
    ),
  'a body in chunks of a byte': (_values, place) => ({
    text: posted(place, [CHUNKED], `${Array.from(place.post?.body ?? '{}', chunk).join('')}0\r\n\r\n`),
    verdict: place.post === undefined ? 'any' : 'asked',
  }),
  'a body by its length that stalls': (values, place) => {
    const body = longBody(values, place);
    const text = posted(place, [`content-length: ${body.length + 1 + values.random.below(5000)}`], body);
    return { text, verdict: 'stalled' };
  },
  'a body in chunks that stalls': (values, place) => {
    const body = longBody(values, place);
    const whole = posted(place, [CHUNKED], `${chunk(body)}${chunk('x'.repeat(40))}0\r\n\r\n`);
    const bodyAt = whole.indexOf('\r\n\r\n') + 4;
    return { text: whole.slice(0, bodyAt + values.random.below(whole.length - bodyAt)), verdict: 'stalled' };
  },
  nothing: () => ({ text: '', verdict: 'silent' }),
  'half a head': (values, place) => {
    const text = request(place, { lines: ['x: y'] });
    return { text: text.slice(0, 1 + values.random.below(text.length - 2)), verdict: 'silent' };
  },
};

/** Every kind of case. */
export const WIRE_KINDS = Object.keys(KINDS);

/**
 * Makes a case for a listener.
 * @param kind one of `WIRE_KINDS`
 */
export function wireCase(kind: string, values: HostileValues, place: WirePlace): WireCase {
  const { text, verdict } = KINDS[kind]!(values, place);
  const bytes = typeof text === 'string' ? Buffer.from(text, 'latin1') : text;
  const before = values.chance(0.2) && verdict !== 'silent' ? 1 + values.random.below(3) : 0;
  const all = Buffer.concat([Buffer.from(request(place).repeat(before), 'latin1'), bytes]);
  const cuts = values.chance(0.25) ? Math.min(6, all.length) : 1;
  const width = Math.max(1, Math.ceil(all.length / cuts));
  const pieces = Array.from({ length: cuts }, (_, at) => all.subarray(at * width, (at + 1) * width));
  return { kind, pieces, verdict, before };
}
