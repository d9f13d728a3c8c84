// Serializers for clients of the gRPC library whose callers encode and decode the messages themselves.

/** Returns a view of `bytes` as the library writes it. */
export function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Returns the bytes of a message that the library has read. */
export function same(bytes: Buffer): Buffer {
  return bytes;
}
