import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromLambdaEvent } from '../../../../shared/frontends/lambda/lambda-events.ts';

const restApiEvent = { httpMethod: 'get', path: '/v1/models', headers: null };

describe('fromLambdaEvent with an event of a REST API', () => {
  it('takes absent headers, query and body as empty', () => {
    expect(fromLambdaEvent(restApiEvent)).toEqual({
      method: 'GET',
      path: '/v1/models',
      query: '',
      headers: new Map(),
      headerLines: 0,
      body: '',
      isBase64: false,
    });
  });

  it('keeps the first of several lines and counts them all', () => {
    const { headers, headerLines } = fromLambdaEvent({
      ...restApiEvent,
      headers: { 'X-A': 'last', 'X-Only-Single': 's' },
      multiValueHeaders: { 'X-A': ['first', 'last'], Accept: ['*/*'] },
    });
    expect(Object.fromEntries(headers)).toEqual({ 'x-a': 'first', accept: '*/*', 'x-only-single': 's' });
    expect(headerLines).toBe(4);
  });

  it('writes a query that reads back as what the client sent, for any names and values', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 });
    fc.assert(
      fc.property(
        fc.dictionary(text, fc.array(text, { minLength: 1, maxLength: 3 }), { noNullPrototype: true }),
        (lists) => {
          const { query } = fromLambdaEvent({ ...restApiEvent, multiValueQueryStringParameters: lists });
          const read = new URLSearchParams(query);
          for (const [name, values] of Object.entries(lists)) expect(read.getAll(name)).toEqual(values);
        },
      ),
    );
  });

  it('falls back to the single values where the service sends no lists', () => {
    const event = { ...restApiEvent, queryStringParameters: { ready: 'a/b c' }, multiValueQueryStringParameters: null };
    expect(fromLambdaEvent(event).query).toBe('ready=a%2Fb%20c');
  });
});

describe('fromLambdaEvent with an event of a function URL', () => {
  it('joins the cookies into one header', () => {
    const request = fromLambdaEvent({
      version: '2.0',
      rawPath: '/v1/chat%20x',
      rawQueryString: 'a=1&a=2',
      headers: { host: 'h' },
      cookies: ['a=1', 'b=2'],
      requestContext: { http: { method: 'POST' } },
      body: 'eA==',
      isBase64Encoded: true,
    });
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/chat%20x',
      query: 'a=1&a=2',
      body: 'eA==',
      isBase64: true,
    });
    expect(request.headers.get('cookie')).toBe('a=1; b=2');
  });

  it('shows a header that is not ASCII as its bytes, as a Node server does', () => {
    const { headers } = fromLambdaEvent({ ...restApiEvent, headers: { 'x-name': 'é' } });
    expect(headers.get('x-name')).toBe('\u00c3\u00a9');
    expect(() => new Headers([...headers])).not.toThrow();
  });
});
