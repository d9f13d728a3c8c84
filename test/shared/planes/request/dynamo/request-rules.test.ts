import { describe, expect, it } from 'vitest';
import { readControl } from '../../../../../shared/planes/request/dynamo/request-rules.ts';

function controlWith(address: unknown): string {
  const info = JSON.stringify({ address, subject: 's', context: 'r1', stream_type: 'response' });
  return JSON.stringify({ id: 'r1', connection_info: { transport: 'tcp_server', info } });
}

describe('the control record of a request of Dynamo', () => {
  it.each([
    ['10.0.0.1:37863', '10.0.0.1', 37_863],
    ['[fd00::1]:37863', 'fd00::1', 37_863],
    ['::1:37863', '::1', 37_863], // frontends of Dynamo 1.5 write no brackets
    ['fd00::1:80', 'fd00::1', 80],
    ['frontend.pods:80', 'frontend.pods', 80],
    ['face:80', 'face', 80],
  ])('may name the address %s', (address, host, port) => {
    expect(readControl(controlWith(address)).home).toEqual({ host, port, subject: 's' });
  });

  it.each(['10.0.0.1', ':80', 'a:b:80', '1.2.3:4:80', '::1', '10.0.0.1:0', '10.0.0.1:65536', 7, undefined])(
    'is refused with the address %s',
    (address) => {
      expect(() => readControl(controlWith(address))).toThrow('connection_info without address and subject');
    },
  );
});
