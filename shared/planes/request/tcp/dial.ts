import { connect } from 'node:net';
import type { TcpTarget } from './address.ts';
import type { ByteChannel } from './byte-channel.ts';

// Reads are synchronous and frames that outlive one are copied, so every connection of the process can share one buffer.
const readBuffer = Buffer.allocUnsafeSlow(64 << 10);

/** Opens a socket to `target`. */
export function dialTcp({ host, port }: TcpTarget, onBytes: (bytes: Buffer) => void): ByteChannel {
  const callback = (count: number): boolean => {
    onBytes(readBuffer.subarray(0, count));
    return true;
  };
  return connect({ host, port, noDelay: true, onread: { buffer: readBuffer, callback } });
}
