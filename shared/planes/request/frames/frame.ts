/*
 * Frames of the TCP plane, big-endian:
 *
 *   0         4        5     6       8           12
 *   | length  | version | type | flags | stream id | payload (length bytes) |
 */

export const FRAME_HEADER_BYTES = 12;
export const FRAME_VERSION = 1;
/** Flag bit 0: the record in the payload is msgpack; without it JSON. */
export const MSGPACK_FLAG = 1;
/** Longest payload of PING and PONG. */
export const PING_BYTES_MAX = 64;
/** Stream id of frames that concern the connection. */
export const CONNECTION_STREAM = 0;

export const FrameType = {
  hello: 1,
  helloAck: 2,
  open: 3,
  prologue: 4,
  data: 5,
  end: 6,
  error: 7,
  stop: 8,
  kill: 9,
  credit: 10,
  ping: 11,
  pong: 12,
  goAway: 13,
  tokens: 14,
  challenge: 15,
  proof: 16,
} as const;

export type FrameTypeCode = (typeof FrameType)[keyof typeof FrameType];

/** The peer broke the protocol; its connection must be closed. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

export function isFrameType(code: number): code is FrameTypeCode {
  return code >= FrameType.hello && code <= FrameType.proof;
}

export function readU32(bytes: Uint8Array, at: number): number {
  // A read outside the buffer yields 0 here; callers check lengths first.
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  payloadBytes: number,
  type: FrameTypeCode,
  flags: number,
  streamId: number,
): void {
  writeU32(bytes, at, payloadBytes);
  bytes[at + 4] = FRAME_VERSION;
  bytes[at + 5] = type;
  bytes[at + 6] = flags >>> 8;
  bytes[at + 7] = flags;
  writeU32(bytes, at + 8, streamId);
}
