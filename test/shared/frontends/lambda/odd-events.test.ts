import { Writable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLambdaHandler } from '../../../../shared/frontends/lambda/lambda-handler.ts';
import type { ResponsePrelude } from '../../../../shared/frontends/lambda/lambda-sink.ts';
import { createTestApp } from '../../../support/http-app.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

interface Answer {
  readonly preludes: readonly ResponsePrelude[];
  readonly text: string;
}

const clock = new VirtualClock();
const { app } = createTestApp({ clock });

/** What the caller of a function gets for `event`; rejects when the invocation fails instead. */
async function invoke(event: unknown): Promise<Answer> {
  const written: string[] = [];
  const preludes: ResponsePrelude[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  });
  const { handler } = createLambdaHandler(async () => app, {
    clock,
    openHttpStream: (underlying, prelude) => {
      preludes.push(prelude);
      return underlying;
    },
    onFailure: () => {},
  });
  await handler(event, stream, {
    awsRequestId: 'r1',
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => 60_000,
  });
  return { preludes, text: written.join('') };
}

const GET = { http: { method: 'GET' } };
const POST = { http: { method: 'POST' } };
const url = (more: object) => ({
  version: '2.0',
  rawPath: '/v1/models',
  rawQueryString: '',
  headers: {},
  requestContext: GET,
  ...more,
});
const rest = (more: object) => ({ httpMethod: 'GET', path: '/v1/models', headers: null, ...more });
const chat = { rawPath: '/v1/chat/completions', requestContext: POST, headers: { 'content-type': 'application/json' } };
const LONE = '\ud800';

describe('an event of HTTP in which something is missing or null', () => {
  const { headers: _headers, rawQueryString: _query, ...bare } = url({});
  it.each([
    ['a function URL without headers and query', bare],
    ['a function URL with nothing but nulls', url({ headers: null, cookies: null, rawQueryString: null, body: null })],
    ['a header that is null', url({ headers: { accept: null } })],
    ['no flag of base64', url({ isBase64Encoded: null })],
    ['an empty list of cookies', url({ cookies: [] })],
    ['a REST API without headers', { httpMethod: 'GET', path: '/v1/models' }],
    ['a REST API with nothing but nulls', rest({ multiValueHeaders: null, queryStringParameters: null, body: null })],
    ['a header that has no lines', rest({ multiValueHeaders: { accept: null, host: [] } })],
    ['a query whose values are null', rest({ queryStringParameters: { a: null } })],
    ['half a character in the values of a query', rest({ queryStringParameters: { [`a${LONE}`]: LONE } })],
    ['half a character in lists of a query', rest({ multiValueQueryStringParameters: { a: [LONE, 'b'] } })],
    ['half a character in the query of a function URL', url({ rawQueryString: `a=${LONE}` })],
    ['half a character in a header', url({ headers: { 'x-request-id': LONE, 'user-agent': LONE } })],
  ])('is served: %s', async (_name, event) => {
    const { preludes, text } = await invoke(event);
    expect(preludes).toMatchObject([{ statusCode: 200 }]);
    expect(JSON.parse(text)).toMatchObject({ object: 'list' });
  });

  it.each([
    ['a function URL', url({ rawPath: `/${LONE}` })],
    ['a REST API', rest({ path: `/${LONE}` })],
    ['a path that begins with none', rest({ path: 'v1' })],
    ['no path', rest({ path: '' })],
  ])('has no route where its path has half a character or none: %s', async (_name, event) => {
    expect((await invoke(event)).preludes).toMatchObject([{ statusCode: 404 }]);
  });
});

describe('an event that is no HTTP request', () => {
  it.each([
    ['nothing', null, /event must be a record, but is null/],
    ['a text', 'GET /', /event must be a record, but is "GET \/"/],
    ['a list', [], /event must be a record/],
    ['a schedule', { version: '0', source: 'aws.events' }, /version must be "2.0", but is "0"/],
    ['records of a queue', { Records: [] }, /version must be "2.0", but is missing/],
    ['a later version', url({ version: '3.0' }), /version must be "2.0", but is "3.0"/],
    ['a version that is a number', url({ version: 2 }), /version must be "2.0", but is 2/],
    ['no context', url({ requestContext: undefined }), /requestContext must be a record, but is missing/],
    ['a null context', url({ requestContext: null }), /requestContext must be a record, but is null/],
    ['a context of another kind', url({ requestContext: {} }), /requestContext.http must be a record, but is missing/],
    ['no method', url({ requestContext: { http: {} } }), /requestContext.http.method must be a text, but is missing/],
    ['no path', url({ rawPath: undefined }), /rawPath must be a text, but is missing/],
    ['a query that is a list', url({ rawQueryString: ['a'] }), /rawQueryString must be a text, but is a list of 1/],
    ['headers that are a text', url({ headers: 'a: b' }), /headers must be a record, but is "a: b"/],
    ['a header with lines', url({ headers: { accept: ['a'] } }), /headers.accept must be a text, but is a list of 1/],
    ['a header that is a number', rest({ headers: { host: 5 } }), /headers.host must be a text, but is 5/],
    ['cookies that are a text', url({ cookies: 'a=1' }), /cookies must be a list of texts, but is "a=1"/],
    ['a cookie that is null', url({ cookies: [null] }), /cookies must be a list of texts, but is a list of 1/],
    ['a body that is an object', url({ body: {} }), /body must be a text, but is an object/],
    ['a flag that is a text', url({ isBase64Encoded: 'true' }), /isBase64Encoded must be true or false, but is "true"/],
    ['a method that is a number', rest({ httpMethod: 1 }), /httpMethod must be a text, but is 1/],
    ['a path that is null', rest({ path: null }), /path must be a text, but is null/],
    ['lines that are a text', rest({ multiValueHeaders: { a: 'b' } }), /multiValueHeaders.a must be a list of texts/],
    ['a line that is a number', rest({ multiValueHeaders: { a: [1] } }), /multiValueHeaders.a must be a list of texts/],
    ['a query that is a text', rest({ queryStringParameters: 'a=b' }), /queryStringParameters must be a record/],
    [
      'a value that is a number',
      rest({ queryStringParameters: { a: 1 } }),
      /queryStringParameters.a must be a list of texts, but is 1/,
    ],
    [
      'lists that are a text',
      rest({ multiValueQueryStringParameters: 'a' }),
      /multiValueQueryStringParameters must be a record/,
    ],
    [
      'a body that is not the base64 it is said to be',
      url({ ...chat, body: '{"a":1}', isBase64Encoded: true }),
      /base64/,
    ],
    ['base64 of no JSON', url({ ...chat, body: 'AAAA', isBase64Encoded: true }), /./],
    ['half a character in a body', url({ ...chat, body: `{"model": ${LONE}}` }), /./],
  ])('is answered with 400 that says what is wrong: %s', async (_name, event, message) => {
    const { preludes, text } = await invoke(event);
    expect(preludes).toMatchObject([{ statusCode: 400, headers: { 'content-type': 'application/json' } }]);
    expect(JSON.parse(text).error.message).toMatch(message);
  });
});

it('every event has one answer of HTTP, whatever stands in its fields, and none is our mistake', async () => {
  const values = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.string({ unit: 'binary' }), fc.constant(LONE));
  const change = fc.tuple(
    fc.constantFrom<readonly string[]>(
      ...['version', 'rawPath', 'rawQueryString', 'headers', 'cookies', 'body', 'isBase64Encoded'].map((key) => [key]),
      ...['httpMethod', 'path', 'multiValueHeaders', 'queryStringParameters'].map((key) => [key]),
      ['multiValueQueryStringParameters'],
      ['multiValueQueryStringParameters', 'a'],
      ['multiValueHeaders', 'a'],
      ['headers', 'content-length'],
      ['headers', 'x-request-id'],
      ['requestContext'],
      ['requestContext', 'http'],
      ['requestContext', 'http', 'method'],
    ),
    values,
  );
  const events = fc.tuple(
    fc.constantFrom(url({}), url(chat), rest({})),
    fc.array(change, { minLength: 1, maxLength: 3 }),
  );
  await fc.assert(
    fc.asyncProperty(events, async ([event, changes]) => {
      const { preludes } = await invoke(changes.reduce<unknown>((at, [path, value]) => withAt(at, path, value), event));
      expect(preludes).toHaveLength(1);
      expect(preludes[0]?.statusCode).toBeLessThan(500);
    }),
    { numRuns: 100 },
  );
});

function withAt(record: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const fields = typeof record === 'object' && record !== null ? (record as Record<string, unknown>) : {};
  return { ...fields, [key]: withAt(fields[key], rest, value) };
}
