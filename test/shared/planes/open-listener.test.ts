import { describe, expect, it } from 'vitest';
import { type FleetListener, isLoopback, refuseOpenListener } from '../../../shared/planes/listen-address.ts';

const PLANE: FleetListener = {
  name: 'the request plane',
  address: '0.0.0.0',
  protectedBy: undefined,
  open: false,
  remedies: ['set STATOR_PLANE_TOKEN', 'set DYN_TCP_RPC_HOST=127.0.0.1'],
};

describe('refuseOpenListener', () => {
  it('says in one line what would listen where, and everything that can be set', () => {
    expect(refuseOpenListener(PLANE)).toBe(
      'the request plane would listen on 0.0.0.0 for anybody who reaches it: set STATOR_PLANE_TOKEN, ' +
        'or set DYN_TCP_RPC_HOST=127.0.0.1, or set STATOR_PLANE_OPEN=on if only trusted machines reach it',
    );
  });

  it('lets through what only this machine reaches, what asks for proof and what is open by choice', () => {
    expect(refuseOpenListener({ ...PLANE, address: '127.0.0.1' })).toBeUndefined();
    expect(refuseOpenListener({ ...PLANE, protectedBy: 'token' })).toBeUndefined();
    expect(refuseOpenListener({ ...PLANE, protectedBy: 'mTLS' })).toBeUndefined();
    expect(refuseOpenListener({ ...PLANE, open: true })).toBeUndefined();
  });
});

describe('isLoopback', () => {
  it.each(['127.0.0.1', '127.8.9.10', '::1', '[::1]', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', 'localhost', 'LOCALHOST'])(
    'takes %s for this machine',
    (host) => expect(isLoopback(host)).toBe(true),
  );

  it.each([
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '::2',
    '::ffff:10.0.0.1',
    'localhost.example.com',
    'worker-1',
    '',
  ])('takes %s for reachable', (host) => expect(isLoopback(host)).toBe(false));
});
