import { connect } from 'node:net';
import type { ByteChannel } from '../frames/byte-channel.ts';
import type { TcpTarget } from './address.ts';
import type { Security } from './encryption.ts';
import { connectSecurely, type PlaneClientTls } from './tls.ts';

// Reads are synchronous and frames that outlive one are copied, so every connection of the process can share one buffer.
const readBuffer = Buffer.allocUnsafeSlow(64 << 10);

/** Opens a socket to `target`, secured where `security` says how. */
export function dialTcp(
  { host, port }: TcpTarget,
  onBytes: (bytes: Buffer) => void,
  security?: Security<PlaneClientTls>,
): ByteChannel {
  const callback = (count: number): boolean => {
    onBytes(readBuffer.subarray(0, count));
    return true;
  };
  const options = { host, port, noDelay: true, onread: { buffer: readBuffer, callback } };
  return security === undefined ? connect(options) : connectSecurely(options, security);
}
