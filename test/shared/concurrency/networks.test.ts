import { describe, expect, it } from 'vitest';
import { networkOf } from '../../../shared/concurrency/index.ts';

describe('the network whose share a connection counts against', () => {
  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:127.0.0.1', '127.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::5:6', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    [undefined, ''],
  ])('of %s is %s', (remoteAddress, network) => {
    expect(networkOf({ remoteAddress })).toBe(network);
  });
});
