/*
 * What one message of a channel carries, big-endian:
 *
 *   0      1          4          8
 *   | kind | reserved | sequence | consumed | bytes of the stream |
 *
 * sequence: of DATA, from 0; of the others, that of the next DATA, so that a lost one shows.
 * consumed: bytes of the other direction taken so far, modulo 2^32; it opens the sender's window.
 */

export const MESSAGE_HEADER_BYTES = 12;

export const MessageKind = {
  data: 1,
  /** Carries `consumed` alone. */
  consumed: 2,
  /** The stream is over in both directions. */
  close: 3,
} as const;

export type MessageKindCode = (typeof MessageKind)[keyof typeof MessageKind];

export interface ChannelMessage {
  readonly kind: MessageKindCode;
  readonly sequence: number;
  readonly consumed: number;
  /** The bytes of the stream; shares memory with what was read. */
  readonly bytes: Buffer;
}

/** The message as bytes of its own. */
export function encodeMessage(kind: MessageKindCode, sequence: number, consumed: number, bytes?: Uint8Array): Buffer {
  const message = Buffer.allocUnsafe(MESSAGE_HEADER_BYTES + (bytes?.length ?? 0));
  message.writeUInt32BE(kind * 2 ** 24, 0);
  message.writeUInt32BE(sequence, 4);
  message.writeUInt32BE(consumed, 8);
  if (bytes !== undefined) message.set(bytes, MESSAGE_HEADER_BYTES);
  return message;
}

/** Undefined for what is no message of a channel. */
export function decodeMessage(data: Uint8Array): ChannelMessage | undefined {
  const kind = data[0];
  if (data.length < MESSAGE_HEADER_BYTES || !isKind(kind)) return undefined;
  const buffer = Buffer.from(data.buffer, data.byteOffset, data.length);
  return {
    kind,
    sequence: buffer.readUInt32BE(4),
    consumed: buffer.readUInt32BE(8),
    bytes: buffer.subarray(MESSAGE_HEADER_BYTES),
  };
}

function isKind(kind: number | undefined): kind is MessageKindCode {
  return kind === MessageKind.data || kind === MessageKind.consumed || kind === MessageKind.close;
}
