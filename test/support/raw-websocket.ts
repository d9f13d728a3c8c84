import { randomBytes } from 'node:crypto';

export const SOCKET_KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

/** Returns the upgrade request for a WebSocket of Responses. */
export function upgradeText(host: string): string {
  const lines = [
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    `sec-websocket-key: ${SOCKET_KEY}`,
  ];
  return `GET /v1/responses HTTP/1.1\r\nhost: ${host}\r\n${lines.join('\r\n')}\r\n\r\n`;
}

interface FrameParts {
  readonly opcode?: number;
  readonly isLast?: boolean;
  readonly isMasked?: boolean;
  /** Length in the header, in place of the payload's own. */
  readonly length?: bigint;
  readonly reserved?: number;
}

/** Returns a frame as a client writes it, valid or not. */
export function socketFrame(payload: string | Buffer, parts: FrameParts = {}): Buffer {
  const { opcode = 1, isLast = true, isMasked = true, length, reserved = 0 } = parts;
  const bytes = Buffer.from(payload);
  const lead = Buffer.from([(isLast ? 0x80 : 0) | reserved | opcode]);
  const mask = isMasked ? 0x80 : 0;
  const long = Buffer.alloc(8);
  long.writeBigUInt64BE(length ?? BigInt(bytes.length));
  const isShort = length === undefined && bytes.length < 126;
  const size = isShort ? Buffer.from([mask | bytes.length]) : Buffer.concat([Buffer.from([mask | 127]), long]);
  if (!isMasked) return Buffer.concat([lead, size, bytes]);
  const key = randomBytes(4);
  return Buffer.concat([lead, size, key, bytes.map((byte, at) => byte ^ key[at % 4]!)]);
}
