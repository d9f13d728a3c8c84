import { describe, expect, it } from 'vitest';
import { type Caller, holdsSecret, refuseStranger } from '../../../shared/access/index.ts';

function caller(headers: Readonly<Record<string, string>>, peer: string | undefined = '127.0.0.1'): Caller {
  return { peer, header: (name) => headers[name] };
}
const HOST = { host: 'localhost:8000' };

describe('refuseStranger', () => {
  it.each([
    ['127.0.0.1', { host: '127.0.0.1:8000' }],
    ['::1', { host: '[::1]:8000' }],
    ['::ffff:127.0.0.1', { host: 'LOCALHOST:9000' }],
    ['127.0.0.1', {}],
    ['127.0.0.1', { ...HOST, origin: 'http://localhost:8000' }],
  ])('takes %s with %o for a client on this machine', (peer, headers) => {
    expect(refuseStranger(caller(headers as Record<string, string>, peer))).toBeUndefined();
  });

  it('trusts no caller without a socket, and none on another machine', () => {
    expect(refuseStranger({ header: () => undefined })).toMatch(/this machine/);
    expect(refuseStranger(caller(HOST, '10.0.0.7'))).toMatch(/this machine/);
  });

  it.each(['x-forwarded-for', 'forwarded', 'x-forwarded-host', 'x-real-ip', 'via'])(
    'does not take the proxy that sends %s for its client',
    (name) => expect(refuseStranger(caller({ ...HOST, [name]: '127.0.0.1' }))).toMatch(name),
  );

  it('does not take a proxy for its client that forwards with HTTP/1.0 and no header', () => {
    expect(refuseStranger({ ...caller(HOST), httpVersion: '1.0' })).toMatch(/proxies/);
    expect(refuseStranger({ ...caller(HOST), httpVersion: '1.1' })).toBeUndefined();
  });

  it.each([
    'evil.example',
    'evil.example:8000',
    'localhost.evil.example:8000',
    '127.0.0.1.evil.example',
    '',
    '10.0.0.7',
  ])('refuses the Host %s', (host) => expect(refuseStranger(caller({ host }))).toMatch(/Host/));

  it.each(['http://evil.example', 'null', 'http://localhost:3000', 'http://localhost', ''])(
    'refuses a page of %s',
    (origin) => expect(refuseStranger(caller({ ...HOST, origin }))).toMatch(/Origin/),
  );
});

describe('holdsSecret', () => {
  const secret = 's'.repeat(32);

  it('takes the secret as a bearer token or as an API key, and nothing else', () => {
    expect(holdsSecret(caller({ authorization: `Bearer ${secret}` }), secret)).toBe(true);
    expect(holdsSecret(caller({ authorization: `bearer  ${secret}` }), secret)).toBe(true);
    expect(holdsSecret(caller({ 'x-api-key': secret }), secret)).toBe(true);
    for (const authorization of ['', 'Bearer ', `Bearer ${secret}s`, `Basic ${secret}`, secret]) {
      expect(holdsSecret(caller({ authorization }), secret)).toBe(false);
    }
    expect(holdsSecret(caller({ 'x-api-key': '' }), secret)).toBe(false);
    expect(holdsSecret(caller({}), secret)).toBe(false);
  });
});
